// Series over one axis, and maps of named points. As vector pictures, drawn anew for the width at hand.

// Round numbers between two ends; on a logarithmic axis powers of ten, with 2 and 5 between where there are few.
function ticks(low, high, most, log) {
  const out = [];
  if (log) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    const step = Math.max(1, Math.ceil((to - from) / most)), parts = to - from <= 3 ? [1, 2, 5] : [1];
    for (let power = from; power <= to; power += step) out.push(...parts.map((part) => part * 10 ** power));
    const inside = out.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    return inside.length > 1 ? inside : ticks(low, high, most, false);
  }
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((part) => part * power >= rough) * power, last = high + step * 1e-6;
  for (let at = Math.ceil(low / step - 1e-9); at * step <= last; at++) out.push(Number((at * step).toPrecision(12)));
  return out;
}

function tickText(number) {
  const size = Math.abs(number);
  if (size < 1e4) return withDigits(number, 4);
  const [one, unit] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => size >= least);
  return signed(number, `${Number((size / one).toPrecision(4))} ${unit}`);
}

// From values to pixels.
function axis([low, high], from, to, log) {
  const turn = log ? Math.log10 : (value) => value, [a, b] = [turn(low), turn(high)];
  return (value) => from + ((turn(value) - a) / (b - a || 1)) * (to - from);
}

// The ends of what there is, with some room beyond them.
function reach(numbers, log, room = 0) {
  const known = Float64Array.from(numbers.filter((one) => Number.isFinite(one) && (!log || one > 0))).sort();
  let low = known.at(0) ?? (log ? 1 : 0), high = known.at(-1) ?? (log ? 10 : 1);
  const half = Math.abs(low || 1) / 2;
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - half, high + half];
  if (log) return [low / (high / low) ** room, high * (high / low) ** room];
  const more = (high - low) * room;
  return [low >= 0 && low - more < 0 ? 0 : low - more, high + more];
}

// An empty chart: its axes with their ticks and names, and how to get from values to pixels.
function chart(panel, width, height, xEnds, yEnds, label) {
  const { log_x: logX, log_y: logY } = panel, yTicks = ticks(...yEnds, 6, logY);
  const box = { left: Math.ceil(widest(yTicks.map(tickText), 12.5, 90)) + 12, right: width - 24,
    top: panel.y_name ? 28 : 10, bottom: height - (panel.x_name ? 44 : 26) };
  const x = axis(xEnds, box.left, box.right, logX), y = axis(yEnds, box.bottom, box.top, logY);
  const measured = [...new Set((panel.series ?? []).flatMap((one) => one.x))];
  const whole = measured.length && measured.every(Number.isInteger); // layers, updates, lengths: no halves
  const round = ticks(...xEnds, Math.max(3, Math.floor(width / 110)), logX)
    .filter((tick, i, all) => !logX || all.length < width / 55 || /^1/.test(tick.toExponential()));
  const xTicks = logX && whole && measured.length < width / 70 ? measured
    : round.filter((tick) => !whole || Number.isInteger(tick));
  const rule = (x1, y1, x2, y2) => svg("line", { class: "rule", x1, y1, x2, y2 });
  const text = (left, top, anchor, words) =>
    svg("text", { class: "quiet", x: left, y: top, "text-anchor": anchor }, words);
  const picture = svg("svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "application", tabindex: "0", "aria-label": label },
    ...yTicks.flatMap((tick) =>
      [rule(box.left, y(tick), box.right, y(tick)), text(box.left - 8, y(tick) + 4, "end", tickText(tick))]),
    ...xTicks.flatMap((tick) => [rule(x(tick), box.bottom, x(tick), box.bottom + 5),
      text(x(tick), box.bottom + 19, "middle", tickText(tick))]),
    panel.x_name && text((box.left + box.right) / 2, height - 4, "middle", panel.x_name),
    panel.y_name && text(0, 13, "start", panel.y_name));
  return { picture, box, x, y };
}

// A line from side to side with its name above it, at one of its ends.
function levelOf([name, at], box, y, end = "start") {
  return [svg("line", { class: "level", x1: box.left, x2: box.right, y1: y(at), y2: y(at) }),
    svg("text", { class: "quiet halo", x: end === "end" ? box.right - 4 : box.left + 4, y: y(at) - 5,
      "text-anchor": end }, name)];
}

drawers.lines = (panel, kept) => {
  kept.hidden ??= [];
  const { series: all, log_x: logX, log_y: logY, levels } = panel, place = make("div");
  const line = reading("Point at the chart to read its values.");
  const has = (value, log) => value !== null && (!log || value > 0);
  const known = (series, i) => has(series.x[i], logX) && has(series.y[i], logY);
  const colours = all.map((series, at) => own(series.colour ?? all.slice(0, at).filter((one) => !one.faint).length));
  const xs = [...new Set(all.flatMap((series) => series.x))].filter((x) => has(x, logX)).sort((a, b) => a - b);
  let cursor = null;
  const legend = make("div.legend", {}, ...all.map((series, at) => {
    const turn = () => {
      kept.hidden = toggled(kept.hidden, at);
      pressed(entry, !kept.hidden.includes(at));
      paint(place.clientWidth);
    };
    const entry = button(make("i", series.faint ? { style: "opacity:.4" } : {}), turn,
      { "--own": colours[at], "aria-pressed": !kept.hidden.includes(at) });
    entry.append(series.name || "values");
    return entry;
  }));

  // A line with a gap wherever a number is missing.
  const path = (series, x, y) => series.x.map((value, i) => (!known(series, i) ? ""
    : `${i && known(series, i - 1) ? "L" : "M"}${x(value).toFixed(1)} ${y(series.y[i]).toFixed(1)}`)).join("");

  function band(series, x, y, floor) {
    const at = upTo(series.x.length).filter((i) => known(series, i) && has(series.low[i]) && has(series.high[i]));
    const side = (values) => (i) =>
      `${x(series.x[i]).toFixed(1)} ${y(logY ? Math.max(values[i], floor) : values[i]).toFixed(1)}`;
    return [...at.map(side(series.high)), ...at.reverse().map(side(series.low))].join(" ");
  }

  // The point of a series next to the cursor, unless it is far from it.
  function nearest(series, x) {
    const far = (i) => Math.abs(x(series.x[i]) - x(cursor));
    const near = upTo(series.x.length).filter((i) => known(series, i) && far(i) < 24);
    return near.length ? near.reduce((best, i) => (far(i) < far(best) ? i : best)) : null;
  }

  function paint(width) {
    if (!width) return;
    const visible = all.map((series, at) => [series, colours[at]]).filter((_, at) => !kept.hidden.includes(at));
    const xEnds = reach(visible.flatMap(([series]) => series.x), logX);
    const yEnds = reach(visible.flatMap(([{ y, low, high }]) => [...y, ...(low ?? []), ...(high ?? [])])
      .concat(levels.map(([, at]) => at)), logY, 0.05);
    const names = all.map((series) => series.name).filter(Boolean).join(", ");
    const label = `${panel.title || "A chart"}: ${names}${panel.x_name && ` over ${panel.x_name}`}.`;
    const { picture, box, x, y } = chart(panel, width, Math.round(clamp(240, width * 0.46, 400)), xEnds, yEnds,
      `${label} Left and right read its values.`);
    picture.append(...levels.flatMap((level) => levelOf(level, box, y, "end")));
    for (const [series, colour] of visible) {
      const look = series.faint ? { "stroke-width": 1, opacity: 0.35 } : { "stroke-width": 2.2 };
      if (series.low && series.high) picture.append(svg("polygon",
        { class: "band", points: band(series, x, y, yEnds[0]), fill: colour, opacity: 0.16 }));
      picture.append(svg("path", { class: "series", d: path(series, x, y), fill: "none", stroke: colour, ...look }));
      const dots = series.dots ? upTo(series.x.length).filter((i) => known(series, i)) : [];
      picture.append(...dots.map((i) =>
        svg("circle", { class: "dot", cx: x(series.x[i]), cy: y(series.y[i]), r: 3.6, fill: colour })));
    }
    const guide = svg("g", { class: "guide" });
    const point = (to) => {
      cursor = to;
      guide.replaceChildren();
      line.textContent = "";
      if (cursor === null || !visible.length) return;
      guide.append(svg("line", { x1: x(cursor), x2: x(cursor), y1: box.top, y2: box.bottom }));
      const parts = visible.flatMap(([series, colour]) => {
        const i = nearest(series, x);
        if (i === null) return [];
        guide.append(svg("circle", { cx: x(series.x[i]), cy: y(series.y[i]), r: 4.5, fill: colour }));
        const spread = series.low && series.high ? ` (${said(series.low[i])} to ${said(series.high[i])})` : "";
        return [`${series.name && `${series.name} `}${said(series.y[i])}${spread}`];
      });
      line.textContent = `${panel.x_name || "at"} ${said(cursor)}: ${parts.join(", ")}`;
    };
    const hear = (event) => {
      const at = event.clientX - picture.getBoundingClientRect().left, far = (value) => Math.abs(x(value) - at);
      point(xs.length ? xs.reduce((best, value) => (far(value) < far(best) ? value : best)) : null);
    };
    const key = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !xs.length) return;
      event.preventDefault();
      point(cursor === null ? xs[0] : xs[clamp(0, xs.indexOf(cursor) + step, xs.length - 1)]);
    };
    const heard = { onpointermove: hear, onpointerdown: hear, onpointerleave: () => point(null), onkeydown: key };
    furnish(picture, heard, guide);
    place.replaceChildren(picture);
    point(cursor);
  }

  sized(place, paint);
  const numbers = asTable(xs.map(said), all.map((series) => series.name || "values"),
    (row, at) => (all[at].x.includes(xs[row]) ? said(all[at].y[all[at].x.indexOf(xs[row])]) : ""));
  return make("div", {}, all.length > 1 || all[0]?.name ? legend : "", line, place, numbers);
};

drawers.points = (panel) => {
  const points = array(panel.points), groups = [...new Set(panel.groups)], place = make("div");
  const line = reading("Point at a dot to read its name.");
  const all = panel.labels.map((label, i) =>
    ({ label, x: points[2 * i], y: points[2 * i + 1], group: panel.groups[i], low: panel.low[i], high: panel.high[i] }));
  const logX = panel.log_x && all.every(({ x }) => x > 0), measured = logX || panel.low.length || panel.levels.length;
  const range = ({ low, high }) => (Number.isFinite(low) && Number.isFinite(high) ? ` (${said(low)} to ${said(high)})` : "");
  const colour = (group, at) => own(panel.colours[at] ?? Math.max(0, groups.indexOf(group)));
  const told = (one) => `${[one.label && isolated(one.label), one.group].filter(Boolean).join(", ") || "a point"}: ${
    said(one.x)}, ${said(one.y)}${range(one)}`;

  function paint(width) {
    const height = Math.round(clamp(300, width * 0.64, 560));
    const xEnds = reach(all.map((one) => one.x), logX, 0.06);
    const yEnds = reach([...all.map((one) => one.y), ...panel.low, ...panel.high, ...panel.levels.map(([, at]) => at)],
      false, 0.06);
    const label = `${panel.title || "A map"}, ${count(all.length, "point")}. Arrow keys go from point to point.`;
    const ends = measured ? [xEnds, yEnds] : evened(xEnds, yEnds, width / height);
    const { picture, box, x, y } = chart({ ...panel, log_x: logX }, width, height, ...ends, label);
    const spots = all.map((one) => [x(one.x), y(one.y)]), r = all.length > 400 ? 3 : 5;
    const dots = all.map(({ group }, at) => svg("circle", { class: "dot", cx: spots[at][0], cy: spots[at][1], r,
      fill: colour(group, at), "fill-opacity": 0.85 }));
    const bars = all.flatMap((one, at) => (range(one) ? svg("line", { class: "bar", x1: x(one.x), x2: x(one.x),
      y1: y(one.low), y2: y(one.high), stroke: colour(one.group, at) }) : []));
    const levels = panel.levels.flatMap((level) => levelOf(level, box, y));
    ruler.font = font(12.5);
    const taken = panel.levels.map(([name, at]) =>
      [box.left, y(at) - 18, box.left + 4 + ruler.measureText(name).width, y(at)]);
    taken.push(...panel.levels.map(([, at]) => [box.left, y(at) - 1, box.right, y(at) + 1]));
    taken.push(...all.filter(range).map((one) => [x(one.x) - 2, y(one.high), x(one.x) + 2, y(one.low)]));
    const names = placeNames(spots, all.map((one) => one.label && shown(one.label)), box, taken);
    const chosen = svg("g", { class: "guide" });
    picture.append(...levels, ...bars, ...dots, ...names, chosen);
    let cursor = null;
    const move = (at) => {
      cursor = at;
      chosen.replaceChildren();
      line.textContent = at === null ? "" : told(all[at]);
      if (at === null) return;
      const [left, top] = spots[at], [anchor, aside] = left > width - 140 ? ["end", -13] : ["start", 13];
      chosen.append(svg("circle", { class: "ring", cx: left, cy: top, r: 8 }),
        svg("text", { class: "name", x: left + aside, y: top + 4, "font-weight": 600, "text-anchor": anchor },
          all[at].label && shown(all[at].label)));
    };
    const hear = (event) => {
      const { left, top } = picture.getBoundingClientRect();
      const far = spots.map((spot) => Math.hypot(spot[0] - event.clientX + left, spot[1] - event.clientY + top));
      const best = far.indexOf(far.reduce((a, b) => Math.min(a, b), Infinity));
      const to = far[best] < 24 ? best : null;
      if (to !== cursor) move(to);
    };
    const key = (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(cursor === null ? 0 : (cursor + step + all.length) % all.length);
    };
    furnish(picture, { onpointermove: hear, onpointerleave: () => move(null), onkeydown: key });
    place.replaceChildren(picture);
  }

  sized(place, paint);
  const legend = make("div.legend", {},
    ...groups.map((group, at) => make("span.spot", { "--own": own(at) }, make("i"), group)));
  return make("div", {}, groups.length > 1 ? legend : "", line, place,
    asTable(panel.labels, [panel.x_name || "across", panel.y_name || "up"], (row, at) => said(points[2 * row + at])));
};

// On a map a step to the right is as long as a step up, unless that would squeeze it to a line.
function evened(xEnds, yEnds, shape) {
  const length = ([low, high]) => high - low, stretch = shape * length(yEnds) / length(xEnds);
  if (stretch > 4 || stretch < 1 / 4) return [xEnds, yEnds];
  const longer = ([low, high], times) => {
    const more = (high - low) * (Math.max(1, times) - 1) / 2;
    return [low - more, high + more];
  };
  return [longer(xEnds, stretch), longer(yEnds, 1 / stretch)];
}

// A name goes right of its point, or left, above, below: where it covers no other. Where all is taken it is left out.
// A point without a name has nothing beside it.
function placeNames(spots, names, box, also) {
  const taken = [...spots.map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]), ...also], out = [];
  const inside = ([left, top, right, bottom]) =>
    left >= box.left - 4 && right <= box.right + 22 && top >= 0 && bottom <= box.bottom + 2;
  const apart = (a, b) => a[0] >= b[2] || a[2] <= b[0] || a[1] >= b[3] || a[3] <= b[1];
  ruler.font = font(12.5);
  spots.forEach(([x, y], at) => {
    if (!names[at]) return;
    const wide = ruler.measureText(names[at]).width + 2;
    const corners = [[x + 8, y + 4], [x - 8 - wide, y + 4], [x - wide / 2, y - 9], [x - wide / 2, y + 17]];
    const areas = corners.map(([left, bottom]) => [left, bottom - 11, left + wide, bottom + 3]);
    const free = areas.findIndex((area) => inside(area) && taken.every((other, i) => i === at || apart(area, other)));
    if (free < 0) return;
    taken.push(areas[free]);
    out.push(svg("text", { class: "name", x: corners[free][0], y: corners[free][1] }, names[at]));
  });
  return out;
}

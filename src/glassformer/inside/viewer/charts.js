// Series over one axis, and maps of named points. As vector pictures, drawn anew for the width at hand.

// Round numbers between two ends; on a logarithmic axis powers of ten, with 2 and 5 between where there are few.
function ticks(low, high, most, log) {
  if (log) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high)),
      step = Math.max(1, Math.ceil((to - from) / most));
    const out = [];
    for (let power = from; power <= to; power += step)
      for (const part of to - from <= 3 ? [1, 2, 5] : [1]) out.push(part * 10 ** power);
    const inside = out.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    return inside.length > 1 ? inside : ticks(low, high, most, false);
  }
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((part) => part * power >= rough) * power, out = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-6;
    at++) out.push(Number((at * step).toPrecision(12)));
  return out;
}

function tickText(number) {
  const size = Math.abs(number), text = (value, unit) => Number(value.toPrecision(4)) + unit;
  if (size >= 1e9) return text(number / 1e9, " G");
  if (size >= 1e6) return text(number / 1e6, " M");
  return (size >= 1e4 ? text(number / 1e3, " k") : said(number)).replace("-", "−");
}

// From values to pixels.
function axis(low, high, from, to, log) {
  const turn = log ? Math.log10 : (value) => value, [a, b] = [turn(low), turn(high)];
  return (value) => from + ((turn(value) - a) / (b - a || 1)) * (to - from);
}

function reach(numbers, log, room = 0) {
  const known = numbers.filter((number) => number !== null && Number.isFinite(number) && (!log || number > 0));
  let [low, high] = known.length ? [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))]
    : [log ? 1 : 0, log ? 10 : 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - Math.abs(low || 1) / 2,
    high + Math.abs(high || 1) / 2];
  if (log) return [low / (high / low) ** room, high * (high / low) ** room];
  const more = (high - low) * room;
  return [low >= 0 && low - more < 0 ? 0 : low - more, high + more];
}

function frame(width, height, box, x, y, { xTicks, yTicks, x_name, y_name }) {
  const parts = [];
  for (const tick of yTicks) {
    parts.push(svg("line", { class: "rule", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }));
    parts.push(svg("text", { class: "quiet", x: box.left - 8, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick)));
  }
  for (const tick of xTicks) {
    parts.push(svg("line", { class: "rule", x1: x(tick), x2: x(tick), y1: box.bottom, y2: box.bottom + 5 }));
    parts.push(svg("text", { class: "quiet", x: x(tick), y: box.bottom + 19, "text-anchor": "middle" },
      tickText(tick)));
  }
  if (x_name) parts.push(svg("text", { class: "quiet", x: (box.left + box.right) / 2, y: height - 4,
    "text-anchor": "middle" }, x_name));
  if (y_name) parts.push(svg("text", { class: "quiet", x: 0, y: 13 }, y_name));
  return parts;
}

drawers.lines = (panel, kept) => {
  kept.hidden ??= [];
  const { log_x: logX, log_y: logY } = panel, place = make("div"),
    line = reading("Point at the chart to read its values.");
  const known = (series, i) => series.x[i] !== null && series.y[i] !== null && (!logX || series.x[i] > 0)
    && (!logY || series.y[i] > 0);
  const colours = panel.series.map((series, at) => own(panel.series.filter((one, i) => i < at && !one.faint).length));
  const visible = () => panel.series.map((series, at) => [series, at]).filter(([, at]) => !kept.hidden.includes(at));
  const xs = [...new Set(panel.series.flatMap((series) => series.x))]
    .filter((value) => value !== null && (!logX || value > 0)).sort((a, b) => a - b);
  let cursor = null, point = () => {};
  const legend = make("div.legend", {}, ...panel.series.map((series, at) => {
    const turn = () => {
      kept.hidden = kept.hidden.includes(at) ? kept.hidden.filter((one) => one !== at) : [...kept.hidden, at];
      button.setAttribute("aria-pressed", !kept.hidden.includes(at));
      paint(place.clientWidth);
    };
    const button = make("button",
      { type: "button", "--own": colours[at], "aria-pressed": !kept.hidden.includes(at), onclick: turn },
      make("i", series.faint ? { style: "opacity:.4" } : {}), series.name || "values");
    return button;
  }));

  function path(series, x, y) {
    let out = "", down = false;
    series.x.forEach((value, i) => {
      if (!known(series, i)) { down = false; return; }
      out += `${down ? "L" : "M"}${x(value).toFixed(1)} ${y(series.y[i]).toFixed(1)}`;
      down = true;
    });
    return out;
  }

  function band(series, x, y, floor) {
    const at = series.x.map((_, i) => i).filter((i) => known(series, i) && series.low[i] !== null
      && series.high[i] !== null);
    const side = (i, value) => `${x(series.x[i]).toFixed(1)} ${y(logY ? Math.max(value, floor) : value).toFixed(1)}`;
    return at.map((i) => side(i, series.high[i])).concat(at.reverse().map((i) => side(i, series.low[i]))).join(" ");
  }

  function paint(width) {
    if (!width) return;
    const height = Math.round(Math.max(240, Math.min(400, width * 0.46))), shown = visible();
    const [x0, x1] = reach(shown.flatMap(([series]) => series.x), logX);
    const [y0, y1] = reach(shown.flatMap(([series]) => [...series.y, ...(series.low ?? []), ...(series.high ?? [])]),
      logY, 0.05);
    const yTicks = ticks(y0, y1, 6, logY), wordy = widest(yTicks.map(tickText), 12.5, 90);
    const box = { left: Math.ceil(wordy) + 12, right: width - 24, top: panel.y_name ? 28 : 10,
      bottom: height - (panel.x_name ? 44 : 26) };
    const x = axis(x0, x1, box.left, box.right, logX), y = axis(y0, y1, box.bottom, box.top, logY);
    const xTicks = ticks(x0, x1, Math.max(3, Math.floor(width / 110)), logX)
      .filter((tick, i, all) => !logX || all.length < width / 55 || /^1/.test(tick.toExponential()));
    const lines = panel.series.map((series) => series.name).filter(Boolean).join(", ");
    const over = panel.x_name ? ` over ${panel.x_name}` : "";
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "application", tabindex: "0",
      "aria-label": `${panel.title || "A chart"}: ${lines}${over}. Left and right read its values.` });
    picture.append(...frame(width, height, box, x, y, { xTicks, yTicks, x_name: panel.x_name, y_name: panel.y_name }));
    for (const [series, at] of shown) {
      const colour = colours[at], look = series.faint ? { "stroke-width": 1, opacity: 0.35 } : { "stroke-width": 2.2 };
      if (series.low && series.high)
        picture.append(svg("polygon", { class: "band", points: band(series, x, y, y0), fill: colour, opacity: 0.16 }));
      picture.append(svg("path", { class: "series", d: path(series, x, y), fill: "none", stroke: colour, ...look }));
      if (series.dots) series.x.forEach((value, i) => {
        if (!known(series, i)) return;
        picture.append(svg("circle", { class: "dot", cx: x(value), cy: y(series.y[i]), r: 3.6, fill: colour }));
      });
    }
    const guide = svg("g", { class: "guide" });
    picture.append(guide);
    point = () => {
      guide.replaceChildren();
      if (cursor === null || !shown.length) { line.textContent = ""; return; }
      guide.append(svg("line", { x1: x(cursor), x2: x(cursor), y1: box.top, y2: box.bottom, stroke: "var(--quiet)",
        "stroke-dasharray": "3 3" }));
      const parts = shown.flatMap(([series, at]) => {
        const i = nearest(series, cursor, x);
        if (i === null) return [];
        guide.append(svg("circle", { cx: x(series.x[i]), cy: y(series.y[i]), r: 4.5, fill: colours[at],
          stroke: "var(--card)", "stroke-width": 2 }));
        const spread = series.low && series.high ? ` (${said(series.low[i])} to ${said(series.high[i])})` : "";
        return [`${series.name ? `${series.name} ` : ""}${said(series.y[i])}${spread}`];
      });
      line.textContent = `${panel.x_name || "at"} ${said(cursor)}: ${parts.join(", ")}`;
    };
    const heard = (event) => {
      const at = event.clientX - picture.getBoundingClientRect().left;
      cursor = xs.reduce((best, value) => (Math.abs(x(value) - at) < Math.abs(x(best) - at) ? value : best),
        xs[0] ?? null);
      point();
    };
    picture.addEventListener("pointermove", heard);
    picture.addEventListener("pointerdown", heard);
    picture.addEventListener("pointerleave", () => { cursor = null; point(); });
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !xs.length) return;
      event.preventDefault();
      cursor = cursor === null ? xs[0] : xs[Math.max(0, Math.min(xs.length - 1, xs.indexOf(cursor) + step))];
      point();
    });
    place.replaceChildren(picture);
    point();
  }

  // The point of a series next to the cursor, unless it is far from it.
  function nearest(series, at, x) {
    let best = null;
    const far = (i) => Math.abs(x(series.x[i]) - x(at));
    series.x.forEach((_, i) => { if (known(series, i) && (best === null || far(i) < far(best))) best = i; });
    return best !== null && far(best) < 24 ? best : null;
  }

  sized(place, paint);
  const numbers = asTable(xs.map(said), panel.series.map((series) => series.name || "values"), (row, at) => {
    const i = panel.series[at].x.indexOf(xs[row]);
    return i < 0 ? "" : said(panel.series[at].y[i]);
  });
  return make("div", {}, panel.series.length > 1 || panel.series[0]?.name ? legend : "", line, place, numbers);
};

drawers.points = (panel) => {
  const points = array(panel.points), groups = [...new Set(panel.groups)], place = make("div"),
    line = reading("Point at a dot to read its name.");
  const all = panel.labels.map((label, i) => ({ label, x: points[2 * i], y: points[2 * i + 1],
    group: groups.indexOf(panel.groups[i]) }));
  const group = (one) => (panel.groups.length ? `, ${groups[one.group]}` : "");
  const name = (one) => `${isolated(one.label)}${group(one)}: ${said(one.x)}, ${said(one.y)}`;

  function paint(width) {
    const height = Math.round(Math.max(300, Math.min(560, width * 0.64)));
    const [[x0, x1], [y0, y1]] = evened(reach(all.map((one) => one.x), false, 0.06),
      reach(all.map((one) => one.y), false, 0.06), width / height);
    const yTicks = ticks(y0, y1, 5, false), box = { left: Math.ceil(widest(yTicks.map(tickText), 12.5, 90)) + 12,
      right: width - 14, top: panel.y_name ? 28 : 10, bottom: height - (panel.x_name ? 44 : 26) };
    const x = axis(x0, x1, box.left, box.right, false), y = axis(y0, y1, box.bottom, box.top, false);
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "application", tabindex: "0",
      "aria-label": `${panel.title || "A map"}, ${count(all.length, "point")}. Arrow keys go from point to point.` });
    const xTicks = ticks(x0, x1, Math.max(3, Math.floor(width / 110)), false), r = all.length > 400 ? 3 : 5;
    picture.append(...frame(width, height, box, x, y, { xTicks, yTicks, x_name: panel.x_name, y_name: panel.y_name }));
    const dots = all.map((one) => svg("circle",
      { class: "dot", cx: x(one.x), cy: y(one.y), r, fill: own(Math.max(0, one.group)), "fill-opacity": 0.85 }));
    const names = placeNames(all.map((one) => [x(one.x), y(one.y), shown(one.label)]), box);
    const texts = names.map(([at, left, top, text]) => svg("text", { class: "name", x: left, y: top, "data-at": at },
      text));
    const chosen = svg("g");
    picture.append(...dots, ...texts, chosen);
    let cursor = null;
    const move = (at) => {
      cursor = at;
      chosen.replaceChildren();
      line.textContent = at === null ? "" : name(all[at]);
      if (at === null) return;
      const [left, top] = [x(all[at].x), y(all[at].y)], end = left > width - 140;
      chosen.append(svg("circle", { cx: left, cy: top, r: 8, fill: "none", stroke: "var(--ink)", "stroke-width": 2 }),
        svg("text", { class: "name", x: left + (end ? -13 : 13), y: top + 4, "font-weight": 600,
          "text-anchor": end ? "end" : "start" }, shown(all[at].label)));
    };
    picture.addEventListener("pointermove", (event) => {
      const frame = picture.getBoundingClientRect(),
        [left, top] = [event.clientX - frame.left, event.clientY - frame.top];
      let best = null, near = 24;
      all.forEach((one, at) => {
        const far = Math.hypot(x(one.x) - left, y(one.y) - top);
        if (far < near) [best, near] = [at, far];
      });
      if (best !== cursor) move(best);
    });
    picture.addEventListener("pointerleave", () => move(null));
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(cursor === null ? 0 : (cursor + step + all.length) % all.length);
    });
    place.replaceChildren(picture);
  }

  sized(place, paint);
  const legend = make("div.legend", {},
    ...groups.map((group, at) => make("span.spot", { "--own": own(at) }, make("i"), group)));
  return make("div", {}, groups.length > 1 ? legend : "", line, place,
    asTable(panel.labels, [panel.x_name || "across", panel.y_name || "up"], (row, at) => said(points[2 * row + at])));
};

// On a map a step to the right is as long as a step up, unless that would squeeze it to a line.
function evened([x0, x1], [y0, y1], shape) {
  const [wide, high] = [x1 - x0, y1 - y0], stretch = shape * high / wide;
  if (stretch > 4 || stretch < 1 / 4) return [[x0, x1], [y0, y1]];
  const more = (low, high, times) => [(low + high) / 2 - times * (high - low) / 2,
    (low + high) / 2 + times * (high - low) / 2];
  return [more(x0, x1, Math.max(1, stretch)), more(y0, y1, Math.max(1, 1 / stretch))];
}

// A name goes right of its point, or left, above, below: where it covers no other. Where all is taken it is left out.
function placeNames(points, box) {
  const taken = points.map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]), out = [];
  ruler.font = font(12.5);
  points.forEach(([x, y, text], at) => {
    const wide = ruler.measureText(text).width + 2;
    const spots = [[x + 8, y + 4], [x - 8 - wide, y + 4], [x - wide / 2, y - 9], [x - wide / 2, y + 17]];
    for (const [left, bottom] of spots) {
      const area = [left, bottom - 11, left + wide, bottom + 3];
      const free = area[0] >= box.left - 4 && area[2] <= box.right + 12 && area[1] >= 0 && area[3] <= box.bottom + 2;
      if (!free || taken.some((other, i) => i !== at && other[0] < area[2] && other[2] > area[0] && other[1] < area[3]
        && other[3] > area[1])) continue;
      taken.push(area);
      out.push([at, left, bottom, text]);
      return;
    }
  });
  return out;
}

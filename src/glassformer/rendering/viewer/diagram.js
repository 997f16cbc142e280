// What a model is built of: bricks from top to bottom, lanes side by side, arrows with shapes. A brick opens by a click or
// Enter; its panel's element then says so with an event `brick`, whose detail is the brick's name (null: closed again).

const HUES = { embedding: 0, positions: 4, attention: 1, "feed-forward": 2, norm: 9, recurrent: 3, convolution: 10, pool: 5,
  head: 8, other: 7 };
const SLIM = { norm: 28, data: 28, add: 24 }; // heights of bricks that say little
const BOX = { least: 208, most: 264, high: 50, gap: 27, pad: 13, title: 30 };
const ALONE = { least: 236, most: 340 }; // of a lane with none beside it
const BESIDE = { left: 30, right: 46 }; // room for arrows beside the bricks of a lane
const CARD = { least: 270, most: 410, apart: 26 };
const BEND = 9;
const LEAST_RANGE = 8; // the widest box is for vectors at least so many times as wide as those of the narrowest

function abbreviated(number) {
  const unit = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([one]) => number >= one * 0.9995);
  return unit ? `${Number((number / unit[0]).toPrecision(3))}${unit[1]}` : String(number);
}

// A line through these points with round corners.
function bent(points) {
  const out = [`M${points[0].join(" ")}`];
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i], [fromX, fromY] = points[i - 1], next = points[i + 1];
    const length = Math.hypot(x - fromX, y - fromY), room = next ? Math.hypot(next[0] - x, next[1] - y) / 2 : 0;
    const r = next ? Math.min(BEND, length / 2, room) : 0, back = length ? r / length : 0;
    out.push(`L${x - (x - fromX) * back} ${y - (y - fromY) * back}`);
    if (r) out.push(`Q${x} ${y} ${x + (next[0] - x) / (2 * room) * r} ${y + (next[1] - y) / (2 * room) * r}`);
  }
  return out.join("");
}

drawers.diagram = (panel, kept) => {
  const { bricks, arrows, groups, lanes } = panel, byName = new Map(bricks.map((brick) => [brick.name, brick]));
  kept.each ??= [];
  const within = Map.groupBy ? Map.groupBy(bricks, (brick) => brick.group) : new Map(groups.map(({ name }) =>
    [name, bricks.filter((brick) => brick.group === name)]));
  const alike = (group) => groups.filter((other) => other.name === group.name || other.like === group.name);
  const folded = (group) => group?.like && !kept.each.includes(group.like);
  const groupOf = new Map(groups.map((group) => [group.name, group]));
  // The brick that stands for one which is not drawn.
  const twin = (name) => {
    const brick = byName.get(name), group = groupOf.get(brick.group);
    return folded(group) ? within.get(group.like)[within.get(group.name).indexOf(brick)].name : name;
  };
  const tied = new Set(arrows.filter((arrow) => arrow.role === "tied").map((arrow) => arrow.end));
  const boxed = bricks.filter((brick) => !(brick.kind in SLIM)).map((brick) => Math.max(brick.width, brick.hidden));
  const low = Math.log(Math.min(...boxed)), high = Math.max(Math.log(Math.max(...boxed)), low + Math.log(LEAST_RANGE));
  const total = bricks.reduce((sum, brick) => sum + brick.parameters, 0);
  const shapeOf = new Map(arrows.filter((arrow) => arrow.role === "flow").map((arrow) => [arrow.start, arrow.shape]));
  const weighs = (brick) => (brick.parameters ? abbreviated(brick.parameters) : tied.has(brick.name) ? "tied" : "");
  const place = make("div.bricks"), aside = make("div.aside"), element = make("div.diagram", {}, place, aside);

  // --- where everything stands ---

  function lay(room, opened) {
    const stacked = lanes.length > 1 && room < 2 * (BOX.least + BESIDE.left + BESIDE.right);
    const beside = stacked ? 1 : lanes.length;
    const widths = lanes.length > 1 ? BOX : ALONE;
    const most = clamp(150, room / beside - BESIDE.left - BESIDE.right, widths.most);
    const least = Math.min(widths.least, most), lane = most + BESIDE.left + BESIDE.right;
    const wide = (brick) => (brick.kind === "add" ? SLIM.add : brick.kind === "data" ? most : brick.kind in SLIM ? least
      : least + (most - least) * (Math.log(Math.max(brick.width, brick.hidden)) - low) / (high - low));
    const tall = (brick) => SLIM[brick.kind] ?? BOX.high + (brick.detail ? 0 : -12);
    const spots = new Map(), frames = [], order = [];
    let y = 0, bottom = 0;
    lanes.forEach((title, at) => {
      if (!stacked) y = 0;
      const middle = BESIDE.left + most / 2 + (stacked ? 0 : at * lane);
      if (title) { frames.push({ title, x: middle - most / 2, y: y + 12 }); y += 26; }
      let inside = null, first = true;
      for (const brick of bricks.filter((one) => one.lane === at && !folded(groupOf.get(one.group)))) {
        const group = groupOf.get(brick.group) ?? null;
        if (!first) y += BOX.gap;
        if (inside && group !== inside.group) { inside.bottom = y - BOX.gap + BOX.pad; y += BOX.pad; inside = null; }
        if (group && !inside) {
          inside = { group, x: middle - most / 2 - 11, wide: most + 38, top: y, middle };
          frames.push(inside);
          y += BOX.title + BOX.pad - 4;
        }
        const size = wide(brick);
        spots.set(brick.name, { brick, x: middle - size / 2, y, wide: size, high: tall(brick), middle, most, first });
        order.push(brick.name);
        y += tall(brick) + (brick.name === opened?.name ? opened.high : 0);
        first = false;
      }
      if (inside) { inside.bottom = y + BOX.pad; y += BOX.pad; }
      bottom = Math.max(bottom, y);
      y += BOX.gap * 1.5;
    });
    return { spots, frames, order, stacked, wide: lane * beside, high: bottom + 4 };
  }

  // --- drawing ---

  const writing = (x, y, words, look = {}) => svg("text", { x, y, ...look }, words);

  function drawBrick({ brick, x, y, wide, high, middle }) {
    const open = kept.open === brick.name, shape = shapeOf.get(brick.name) ?? "", parameters = weighs(brick);
    const label = [brick.kind === "add" ? "sum with the residual" : brick.title, brick.detail,
      parameters && (parameters === "tied" ? "tied weights" : `${parameters} parameters`), shape && `gives ${shape}`];
    const fitting = (words, room, size, bold = false) => { ruler.font = font(size, bold); return cut(ruler, words, room); };
    const attributes = { class: `brick of-${brick.kind}${open ? " open" : ""}`, "data-name": brick.name,
      "--own": own(HUES[brick.kind] ?? HUES.other), "aria-label": label.filter(Boolean).join(", ") };
    if (brick.kind === "data") {
      const words = brick.detail ? `${brick.title}: ${brick.detail}` : brick.title;
      return svg("g", { ...attributes, role: "img" }, svg("rect", { x, y, width: wide, height: high, rx: high / 2 }),
        writing(middle, y + 18, fitting(words, wide - 28, 12), { "text-anchor": "middle" }));
    }
    const parts = brick.kind === "add"
      ? [svg("circle", { cx: middle, cy: y + high / 2, r: high / 2 }),
        svg("path", { class: "plus", d: `M${middle - 5} ${y + high / 2}h10M${middle} ${y + high / 2 - 5}v10` })]
      : [svg("rect", { x, y, width: wide, height: high, rx: brick.kind in SLIM ? 9 : 11 }),
        writing(x + 13, y + (brick.kind in SLIM ? 18.5 : 21),
          fitting(brick.title, wide - 34 - widest([parameters], 11.5, 80), 13, true), { class: "title" }),
        writing(x + wide - 13, y + (brick.kind in SLIM ? 18.5 : 21), parameters, { class: "count", "text-anchor": "end" })];
    if (brick.detail && !(brick.kind in SLIM))
      parts.push(writing(x + 13, y + 38, fitting(brick.detail, wide - 26, 11.5), { class: "detail" }));
    return svg("g", { ...attributes, role: "button", tabindex: 0, "aria-expanded": open,
      onclick: () => toggle(brick.name), onkeydown: (event) => key(event, () => toggle(brick.name)) }, ...parts);
  }

  function drawFrame(frame) {
    if (!frame.group) return writing(frame.x, frame.y, frame.title, { class: "lane" });
    const { group, x, wide, top, bottom } = frame, same = alike(groupOf.get(group.like || group.name));
    const each = kept.each.includes(group.like || group.name), parts = [
      svg("rect", { x, y: top, width: wide, height: bottom - top, rx: 16 }),
      writing(x + 14, top + 18, same.length > 1 && !each ? `${group.title} … ${same.at(-1).title}` : group.title)];
    if (same.length > 1 && !group.like) {
      const turn = () => { kept.each = toggled(kept.each, group.name); draw(`fold ${group.name}`); };
      const words = each ? "fold" : `×${same.length}`, long = each ? 46 : 40;
      parts.push(svg("g", { class: "times", role: "button", tabindex: 0, "aria-expanded": each,
        "data-name": `fold ${group.name}`, onclick: turn, onkeydown: (event) => key(event, turn),
        "aria-label": `${same.length} with the same bricks: ${each ? "show one" : "show each"}` },
      svg("rect", { x: x + wide - long - 7, y: top + 5, width: long, height: 20, rx: 10 }),
      writing(x + wide - long / 2 - 7, top + 19, words, { "text-anchor": "middle" })));
    }
    return svg("g", { class: "group" }, ...parts);
  }

  // Points of an arrow, and where its shape is written.
  function route(arrow, layout, gutters) {
    const { spots, order } = layout, a = spots.get(arrow.start), b = spots.get(arrow.end);
    const center = (spot) => spot.y + spot.high / 2, right = b.middle + b.most / 2, apart = a.brick.lane !== b.brick.lane;
    if (arrow.role === "flow") {
      const leaves = a.brick.group && a.brick.group !== b.brick.group;
      const at = a.y + a.high + (leaves ? BOX.pad : 0) + BOX.gap / 2 - 1;
      const points = [[a.middle, a.y + a.high], [b.middle, b.y]];
      return { points, label: [a.middle - 8, at + 3, "end"] };
    }
    if (["memory", "state"].includes(arrow.role) || (apart && layout.stacked)) {
      gutters.set(arrow.start, gutters.get(arrow.start) ?? gutters.size);
      const nth = gutters.get(arrow.start), to = center(b);
      if (layout.stacked) {
        const x = 5 + 7 * nth;
        return { points: [[a.x, center(a)], [x, center(a)], [x, to], [b.x, to]] };
      }
      const x = b.middle - b.most / 2 - BESIDE.left - 6 - 9 * nth;
      return { points: [[a.x + a.wide, center(a)], [x, center(a)], [x, to], [b.x, to]],
        label: [a.x + a.wide + 5, center(a) - 5, "start"] };
    }
    if (arrow.role === "tied" && apart) return { points: [[a.x + a.wide, center(a)], [b.x, center(b)]] };
    if (arrow.role === "tied" || arrow.role === "feedback") {
      const x = right + (arrow.role === "tied" ? 38 : 31);
      return { points: [[a.x + a.wide, center(a)], [x, center(a)], [x, center(b)], [b.x + b.wide, center(b)]] };
    }
    const next = spots.get(order[order.indexOf(arrow.start) + 1]), y = next.y - 9, x = right + 15;
    return { points: [[a.middle, y], [x, y], [x, center(b)], [b.x + b.wide, center(b)]] };
  }

  function drawArrows(layout) {
    const gutters = new Map(), seen = new Set();
    return arrows.flatMap((arrow) => {
      const [start, end] = [twin(arrow.start), twin(arrow.end)], again = `${arrow.role} ${end}`;
      const hidden = [arrow.start, arrow.end].some((name) => folded(groupOf.get(byName.get(name).group)));
      const leaves = arrow.role === "flow" && byName.get(arrow.end).group !== byName.get(arrow.start).group
        && !folded(groupOf.get(byName.get(arrow.end).group));
      if (hidden && !leaves || seen.has(again) && hidden) return [];
      seen.add(again);
      const { points, label } = route({ ...arrow, start, end }, layout, gutters), words = arrow.shape;
      const line = svg("path", { class: `arrow ${arrow.role}`, d: bent(points),
        ...(arrow.role === "tied" ? {} : { "marker-end": "url(#arrow-head)" }) });
      return [line, ...(label && words ? [writing(label[0], label[1], words, { class: "shape", "text-anchor": label[2] })] : [])];
    });
  }

  // --- what is open ---

  function heatOf(brick) {
    const { shape: [rows, columns] } = brick.heat, values = array(brick.heat);
    const canvas = make("canvas", { width: columns, height: rows, role: "img",
      "aria-label": `What ${brick.title} gave, ${rows} × ${columns} cells.` });
    canvas.style.height = `${clamp(14, rows * 9, 180)}px`;
    return painted(canvas, () => {
      const pen = canvas.getContext("2d"), image = pen.createImageData(columns, rows);
      stain(image, (i) => shade(clamp(-1, (values[i] - 128) / 127, 1)));
      pen.putImageData(image, 0, 0);
    });
  }

  function card(brick) {
    const rows = brick.numbers.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)));
    const facts = [brick.parameters && `${brick.parameters.toLocaleString("en")} parameters`,
      tied.has(brick.name) && "weights of another brick", shapeOf.get(brick.name) && `gives ${shapeOf.get(brick.name)}`];
    return make("div.card", { role: "region", "aria-label": `${brick.title}: numbers`, "aria-live": "polite",
      "--own": own(HUES[brick.kind] ?? HUES.other) },
    button("×", () => toggle(brick.name), { class: "close", "aria-label": "close" }),
    make("h4", {}, make("i"), brick.kind === "add" ? "x + …: the residual connection" : brick.title),
    brick.detail && make("p", {}, brick.detail), make("p.small", {}, facts.filter(Boolean).join(" · ")),
    rows.length ? make("table", {}, make("tbody", {}, ...rows)) : "",
    brick.heat ? make("figure", {}, heatOf(brick), make("figcaption", {}, 
      `what it gave${brick.heat.shape[0] > 1 ? ", a row for each token" : ""}: blue above 0, orange below`)) : "",
    make("p.small.path", {}, brick.name),
    brick.code ? make("details", {}, make("summary", {}, "show the code"), make("pre", {}, brick.code)) : "");
  }

  function overview() {
    const kinds = Object.keys(HUES).map((kind) => [kind,
      bricks.filter((brick) => brick.kind === kind).reduce((sum, brick) => sum + brick.parameters, 0)]).filter(([, sum]) => sum);
    return make("div.card.overview", {}, make("h4", {}, `${abbreviated(total)} parameters`),
      make("ul", {}, ...kinds.sort((a, b) => b[1] - a[1]).map(([kind, sum]) => make("li",
        { "--own": own(HUES[kind]), "--share": sum / total }, make("span", {}, kind), make("i"), make("span.number", {}, abbreviated(sum))))),
      make("p.small", {}, "Choose a brick to see its numbers."));
  }

  function key(event, act) {
    const all = [...place.querySelectorAll("[tabindex]")], at = all.indexOf(event.currentTarget);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") act();
    else if (event.key === "Escape" && kept.open) toggle(kept.open);
    else if (step && all[at + step]) all[at + step].focus();
    else return;
    event.preventDefault();
  }

  function toggle(name) {
    kept.open = kept.open === name ? null : name;
    draw(name);
    element.dispatchEvent(new CustomEvent("brick", { bubbles: true, detail: kept.open }));
  }

  function draw(focus) {
    paint(onPaper ? PAPER : element.clientWidth);
    if (focus) place.querySelector(`[data-name="${CSS.escape(focus)}"]`)?.focus();
  }

  function paint(room) {
    if (!room) return;
    const opened = byName.get(kept.open) ?? null;
    let layout = lay(room, null);
    if (room - layout.wide - CARD.apart < CARD.least && lanes.length > 1) layout = lay(Math.max(room - CARD.least - CARD.apart, 0), null);
    const side = room - layout.wide - CARD.apart >= CARD.least;
    if (!side) layout = lay(room, null);
    const left = side ? Math.min(layout.wide + CARD.apart, room - CARD.least) : Math.max(0, (layout.wide - Math.min(room, CARD.most)) / 2);
    Object.assign(aside.style, { width: `${Math.min(CARD.most, side ? room - left : room)}px`, left: `${left}px`, top: 0 });
    aside.classList.toggle("beneath", !side && !opened);
    aside.replaceChildren(opened && layout.spots.has(opened.name) ? card(opened) : overview());
    aside.querySelector("details")?.addEventListener("toggle", () => paintHeights());
    const high = () => aside.offsetHeight;
    const settle = () => {
      const under = opened && !side ? { name: opened.name, high: high() + 10 } : null;
      if (under) layout = lay(room, under);
      const spot = opened && layout.spots.get(opened.name);
      const top = !spot ? 0 : side ? clamp(0, spot.y - 12, Math.max(0, layout.high - high())) : spot.y + spot.high + 8;
      aside.style.top = `${top}px`;
      element.style.minHeight = side || under ? `${Math.max(layout.high, top + high())}px` : "";
      const spots = [...layout.spots.values()];
      const head = (id, size, refX) => svg("marker", { id, viewBox: "0 0 8 8", refX, refY: 4, markerWidth: size, markerHeight: size,
        orient: "auto" }, svg("path", { d: "M0.5 0.8 7.4 4 0.5 7.2Z" }));
      place.replaceChildren(svg("svg", { width: layout.wide, height: layout.high, role: "group",
        viewBox: `0 0 ${layout.wide} ${layout.high}`,
        "aria-label": `${panel.title || "The model"}: ${count(spots.length, "brick")}. Up and down go from one to the next, Enter opens it.` },
      svg("defs", {}, head("arrow-head", 7, 7)), ...layout.frames.map(drawFrame), ...drawArrows(layout), ...spots.map(drawBrick)));
    };
    const paintHeights = settle;
    settle();
  }

  return sized(element, paint);
};

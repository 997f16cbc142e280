// Attention: one head or the mean as a heat map, the heads of a layer as lines between tokens, and all heads at once.

drawers.heads = (panel, kept) => {
  const weights = new Weights(panel.weights), { layers, heads } = weights, single = layers * heads === 1;
  kept.layer = within(kept.layer === undefined ? panel.layer : kept.layer, layers);
  kept.head = within(kept.head === undefined ? panel.head : kept.head, heads);
  kept.mode ??= single && panel.mode === "all" ? "heat" : panel.mode;
  kept.lit = kept.lit?.filter((head) => head < heads);
  kept.lit ??= kept.head === null ? Array.from({ length: heads }, (_, head) => head) : [kept.head];
  const names = panel.names ?? [], stand = make("div"), title = make("p.small", { style: "margin:0 0 .3rem" });
  const say = () => {
    const one = kept.mode === "heat" || kept.lit.length === 1;
    const layer = kept.layer === null ? `The mean over ${count(layers, "layer")}` : `Layer ${kept.layer}`;
    if (kept.mode === "all") title.textContent = `${count(layers, "layer")}, ${count(heads, "head")} each`;
    else if (one) title.textContent = meaning(layers, heads, kept.layer, kept.head, names);
    else title.textContent = `${layer}, ${kept.lit.length} of ${heads} heads`;
  };
  let drawn = null;
  const show = () => {
    say();
    stand.replaceChildren();
    const draw = { heat: heatOfHeads, lines: linesOfHeads, all: allHeads }[kept.mode];
    drawn = draw(panel, weights, kept, stand, { say, open, refill: choose.fill });
    choose.fill();
    choose.element.hidden = kept.mode === "all";
  };
  const open = (layer, head) => {
    Object.assign(kept, { layer, head, lit: [head], mode: "heat" });
    const press = (button) => button.setAttribute("aria-pressed", button.textContent === "heat");
    modes.querySelectorAll("button").forEach(press);
    show();
    stand.querySelector("canvas").focus({ preventScroll: true });
  };
  const choose = choosers(layers, heads, kept, (what) => {
    if (what === "head") kept.lit = kept.head === null ? Array.from({ length: heads }, (_, head) => head) : [kept.head];
    say();
    drawn.changed();
  }, names);
  const modes = several("how to show", single ? ["heat", "lines"] : ["heat", "lines", "all"], kept.mode,
    (mode) => { kept.mode = mode; show(); });
  show();
  return make("div", {}, make("div.controls", {}, modes, choose.element), title, stand,
    weights.kept ? make("p.small", {}, weights.said()) : "");
};

function within(number, count) {
  return number === null || number === undefined || number < count ? number ?? null : null;
}

// In words: the weight between two tokens.
function between(panel, weights, row, column, weight) {
  const rest = weights.kept && weight === 0 ? `not among the ${weights.kept} largest` : share(weight);
  return `${isolated(panel.rows[row])} → ${isolated(panel.columns[column])}: ${rest}`;
}

function mostLookedAt(panel, values, row, most = 5) {
  const part = Array.from(values.subarray(row * panel.columns.length, (row + 1) * panel.columns.length),
    (weight, column) => [weight, column]);
  const largest = part.filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0]).slice(0, most);
  return `${isolated(panel.rows[row])} looks at `
    + (largest.map(([weight, column]) => `${isolated(panel.columns[column])} ${share(weight)}`).join(", ")
    || "nothing");
}

function heatOfHeads(panel, weights, kept, stand) {
  let values = weights.of(kept.layer, kept.head);
  const columns = weights.columns,
    line = reading("Point at a cell: who looks at whom. A click on a row's name pins it.");
  const scaled = () => {
    const { high } = ends(values, {});
    return { low: 0, high: Math.max(0.5, high), signed: false }; // weights that are all alike should look pale
  };
  kept.heat ??= {};
  const heat = new Heat({
    rows: panel.rows, columns: panel.columns, rowName: panel.row_name, columnName: panel.column_name, values,
      scale: scaled(),
    kept: kept.heat, line,
    label: `Attention weights, ${count(weights.rows, "row")} × ${count(columns, "column")}. Enter pins a row.`,
    read: (row, column) => between(panel, weights, row, column, values[row * columns + column]),
    readRow: (row) => mostLookedAt(panel, values, row),
  });
  let bar = scaleBar(heat.scale);
  const table = asTable(panel.rows, panel.columns, (row, column) => share(values[row * columns + column]));
  stand.append(make("div.controls", {}, wholeButton(heat, Math.max(weights.rows, columns) > 40)), line, heat.element,
    bar, table);
  return { changed() {
    values = weights.of(kept.layer, kept.head);
    heat.show(values, scaled());
    const next = scaleBar(heat.scale);
    bar.replaceWith(next);
    bar = next;
    if (table) table.refill();
  } };
}

const THUMB = 76; // pixels, about; a thumbnail's longer side

function allHeads(panel, weights, kept, stand, { open }) {
  const { layers, heads, rows, columns } = weights, names = panel.names ?? [];
  const shrink = Math.max(1, Math.max(rows, columns) / THUMB), wide = Math.ceil(columns / shrink),
    high = Math.ceil(rows / shrink);
  const stretch = Math.max(40, Math.min(THUMB, 840 / heads)) / Math.max(wide, high);
  const grid = make("div.thumbs", { style: `grid-template-columns: auto repeat(${heads}, auto)` });
  grid.append(make("span", {}, ""),
    ...Array.from({ length: heads }, (_, head) => make("span", {}, heads > 1 && head === 0 ? "head 0" : String(head))));
  const pictures = [];
  for (let layer = 0; layer < layers; layer++) {
    grid.append(make("span", {}, layer === 0 ? "layer 0" : String(layer)));
    for (let head = 0; head < heads; head++) {
      const canvas = make("canvas",
        { width: wide, height: high, "aria-hidden": "true",
        style: `width:${Math.round(wide * stretch)}px;height:${Math.round(high * stretch)}px` });
      const name = names[layer]?.[head], label = `Layer ${layer}, head ${head}${name ? `: ${name}` : ""}`;
      grid.append(make("button",
        { type: "button", title: label, "aria-label": label, onclick: () => open(layer, head) }, canvas));
      pictures.push([canvas, layer, head]);
    }
  }
  const paint = () => pictures.forEach(([canvas, layer, head]) => {
    const most = new Uint8Array(wide * high), pen = canvas.getContext("2d"), data = pen.createImageData(wide, high);
    weights.each(layer, head, (row, column, byte) => {
      const at = Math.floor(row / shrink) * wide + Math.floor(column / shrink);
      if (byte > most[at]) most[at] = byte;
    });
    stain(data, (i) => shade(most[i] / 255));
    pen.putImageData(data, 0, 0);
  });
  painters.set(grid, paint);
  paint();
  const room = make("div.wide", {}, grid);
  stand.append(make("p.small.hint", { style: "margin:0 0 .5rem" },
    "Each small picture is one head, looking tokens down, tokens looked at across. A click opens it."), room);
  return { changed() {} };
}

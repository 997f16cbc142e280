// Attention: one head or the mean as a heat map, the heads of a layer as lines between tokens, and all heads at once.

drawers.heads = (panel, kept) => {
  const weights = new Weights(panel.weights), { layers, heads } = weights, single = layers * heads === 1;
  const lit = () => (kept.head === null ? upTo(heads) : [kept.head]);
  begin(kept, panel, weights);
  kept.mode ??= single && panel.mode === "all" ? "heat" : panel.mode;
  kept.lit = kept.lit?.filter((head) => head < heads) ?? lit();
  const names = panel.names ?? [], stand = make("div"), title = make("p.small.above");
  const say = () => {
    const layer = kept.layer === null ? `The mean over ${count(layers, "layer")}` : `Layer ${kept.layer}`;
    if (kept.mode === "all") title.textContent = `${count(layers, "layer")}, ${count(heads, "head")} each`;
    else if (kept.mode === "heat" || kept.lit.length === 1)
      title.textContent = meaning(layers, heads, kept.layer, kept.head, names);
    else title.textContent = `${layer}, ${kept.lit.length} of ${heads} heads`;
  };
  let changed;
  const show = () => {
    say();
    stand.replaceChildren();
    const draw = { heat: heatOfHeads, lines: linesBetween, all: allHeads }[kept.mode];
    changed = draw(panel, weights, kept, stand, { say, open, refill: choose.fill });
    choose.fill();
    choose.element.hidden = kept.mode === "all";
  };
  const open = (layer, head) => {
    Object.assign(kept, { layer, head, lit: [head], mode: "heat" });
    modes.press("heat");
    show();
    stand.querySelector("canvas").focus({ preventScroll: true });
  };
  const choose = choosers(layers, heads, kept, (what) => {
    if (what === "head") kept.lit = lit();
    say();
    changed();
  }, names);
  const modes = several("how to show", single ? ["heat", "lines"] : ["heat", "lines", "all"], kept.mode,
    (mode) => { kept.mode = mode; show(); });
  show();
  return make("div", {}, make("div.controls", {}, modes.element, choose.element), title, stand, weights.said());
};

// Each of the three ways fills its stand and gives what is to be done when another layer or head is chosen.

function heatOfHeads(panel, weights, kept, stand) {
  const { rows, columns } = panel;
  let values = weights.of(kept.layer, kept.head);
  const line = reading("Point at a cell: who looks at whom. A click on a row's name pins it.");
  // Weights that are all alike should look pale.
  const scaled = () => ({ low: 0, high: panel.high ?? Math.max(0.5, ends(values, {}).high), signed: false });
  const weight = (row, column) => values[row * columns.length + column];
  const masked = (row, column) => panel.causal && column > row;
  const inWords = (one) => (weights.kept && one === 0 ? `not among the ${weights.kept} largest` : share(one));
  kept.heat ??= {};
  const heat = new Heat({ panel, values, scale: scaled(), kept: kept.heat, line,
    label: `Attention weights, ${count(rows.length, "row")} × ${count(columns.length, "column")}. Enter pins a row.`,
    read: (row, column) => `${isolated(rows[row])} → ${isolated(columns[column])}: `
      + (masked(row, column) ? "masked" : inWords(weight(row, column))),
    readRow: (row) => {
      const part = values.subarray(row * columns.length, (row + 1) * columns.length);
      return `${isolated(rows[row])} looks at ${mostOf(part, columns, 5)}`;
    },
  });
  const bar = make("div", {}, scaleBar(heat.scale, panel.causal));
  const table = asTable(rows, columns,
    (row, column) => (masked(row, column) ? "–" : share(weight(row, column))));
  stand.append(wholeButton(heat), line, heat.element, bar, table);
  return () => {
    values = weights.of(kept.layer, kept.head);
    heat.show(values, scaled());
    bar.replaceChildren(scaleBar(heat.scale, panel.causal));
    if (table) table.refill();
  };
}

const THUMB = 76; // pixels, about; a thumbnail's longer side

// One head on a canvas of few pixels, each the largest weight of its cells; what is masked is left open.
function thumbnail(canvas, weights, layer, head, size, causal = false) {
  const { rows, columns } = weights, shrink = Math.max(1, Math.max(rows, columns) / size);
  const width = Math.ceil(columns / shrink), height = Math.ceil(rows / shrink);
  return painted(canvas, () => {
    Object.assign(canvas, { width, height });
    const pen = canvas.getContext("2d"), most = new Uint8Array(width * height), data = pen.createImageData(width, height);
    weights.each(layer, head, (row, column, byte) => {
      const at = Math.floor(row / shrink) * width + Math.floor(column / shrink);
      if (byte > most[at]) most[at] = byte;
    });
    stain(data, (i) => shade(most[i] / 255));
    if (causal) upTo(most.length).filter((i) => i % width > Math.floor(i / width)).forEach((i) => { data.data[4 * i + 3] = 0; });
    pen.putImageData(data, 0, 0);
  });
}

function allHeads(panel, weights, kept, stand, { open }) {
  const { layers, heads } = weights;
  const numbered = (what, at) => make("span", {}, at === 0 ? `${what} 0` : String(at));
  const thumb = (layer, head) => {
    const canvas = thumbnail(make("canvas", { "aria-hidden": "true" }), weights, layer, head, THUMB, panel.causal);
    const { width, height } = canvas, stretch = clamp(40, 840 / heads, THUMB) / Math.max(width, height);
    canvas.style.cssText = `width:${Math.round(width * stretch)}px;height:${Math.round(height * stretch)}px`;
    const name = panel.names?.[layer]?.[head], label = `Layer ${layer}, head ${head}${name ? `: ${name}` : ""}`;
    return button(canvas, () => open(layer, head), { title: label, "aria-label": label });
  };
  const above = upTo(heads).map((head) => numbered("head", head));
  const lines = upTo(layers).flatMap((layer) =>
    [numbered("layer", layer), ...upTo(heads).map((head) => thumb(layer, head))]);
  const grid = make("div.thumbs", { style: `grid-template-columns: auto repeat(${heads}, auto)` },
    make("span"), ...above, ...lines);
  stand.append(make("p.small.above.hint", {},
    "Each small picture is one head, looking tokens down, tokens looked at across. A click opens it."),
  make("div.wide", {}, grid), scaleBar({ low: 0, high: 1 }, panel.causal));
  return () => {};
}

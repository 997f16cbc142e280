// Images: small ones in rows, and one with the attention between its patches.

const LARGE = 420; // pixels, the longer side of an image with patches

function imageOf(packed) {
  const [height, width, channels] = packed.shape, values = array(packed), canvas = make("canvas", { width, height });
  const pen = canvas.getContext("2d"), { data } = pen.getImageData(0, 0, width, height);
  for (let i = 0; i < width * height; i++) {
    for (let part = 0; part < 3; part++) data[4 * i + part] = values[i * channels + (channels < 3 ? 0 : part)];
    data[4 * i + 3] = channels === 4 ? values[i * channels + 3] : 255;
  }
  pen.putImageData(new ImageData(data, width, height), 0, 0);
  return canvas;
}

drawers.gallery = (panel) => make("div.gallery", {}, ...panel.images.map((image, at) => {
  const caption = panel.captions[at] ?? "";
  const canvas = furnish(imageOf(image), { role: "img", "aria-label": caption || `image ${at}` });
  return make("figure", {}, canvas, make("figcaption", {}, caption));
}));

drawers.patches = (panel, kept) => {
  const weights = new Weights(panel.weights), [down, across] = panel.grid, image = imageOf(panel.pixels);
  const { columns } = weights, last = down * across - 1;
  begin(kept, panel, weights);
  kept.patch = kept.patch <= last ? kept.patch : null;
  const line = reading(""), title = make("p.small.above"), caption = make("figcaption");
  const size = Math.max(1, Math.min(LARGE / image.width, LARGE / image.height));
  const width = Math.round(image.width * size), height = Math.round(image.height * size);
  const row = (patch) => Math.floor(patch / across), column = (patch) => patch % across;
  const where = (patch) => `row ${row(patch)}, column ${column(patch)}`;
  const box = (patch) => [column(patch) * width / across, row(patch) * height / down, width / across, height / down];

  // What the chosen patch looks at, or all patches in the mean.
  const looked = () => {
    const values = weights.of(kept.layer, kept.head);
    if (kept.patch !== null) return values.subarray(kept.patch * columns, (kept.patch + 1) * columns);
    const mean = new Float32Array(columns);
    values.forEach((weight, i) => { mean[i % columns] += weight / weights.rows; });
    return mean;
  };

  const draw = (canvas, filter, overlay) => {
    const pen = canvas.getContext("2d");
    pen.imageSmoothingEnabled = false;
    pen.clearRect(0, 0, width, height);
    pen.filter = filter;
    pen.drawImage(image, 0, 0, width, height);
    pen.filter = "none";
    pen.fillStyle = "#e66900";
    overlay.forEach((part, patch) => {
      pen.globalAlpha = part;
      pen.fillRect(...box(patch));
    });
    pen.globalAlpha = 1;
    if (kept.patch === null) return;
    for (const [colour, thick] of [["#ffffff", 5], ["#0069a8", 2.5]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = thick;
      pen.strokeRect(...box(kept.patch));
    }
  };
  const paint = () => {
    const part = looked(), most = Math.max(...part, 2 / part.length), alone = kept.patch !== null;
    draw(plain, "none", []);
    // In grey, so that the colour above it is only the weight's.
    draw(canvas, "grayscale(1) contrast(.75)", part.map((weight) => 0.82 * weight / most));
    title.textContent = meaning(weights.layers, weights.heads, kept.layer, kept.head);
    const top = largest(part, 3).map((patch) => `${where(patch)} (${share(part[patch])})`).join("; ");
    const who = alone ? `The patch in ${where(kept.patch)} looks` : "All patches together look";
    line.textContent = `${who} most at ${top}`;
    caption.textContent = alone ? "where the patch in the frame looks"
      : "where all patches look, in the mean; choose one by a click";
    pressed(together, !alone);
    if (table) table.refill();
  };
  const choose = (patch) => { kept.patch = patch; paint(); };
  const together = button("all patches", () => choose(null));
  const click = (event) => {
    const frame = event.target.getBoundingClientRect();
    const at = (place, length, cells) => clamp(0, Math.floor(place / length * cells), cells - 1);
    choose(at(event.clientY - frame.top, frame.height, down) * across
      + at(event.clientX - frame.left, frame.width, across));
  };
  const key = (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step && event.key !== "Escape") return;
    event.preventDefault();
    if (!step) choose(null);
    else if (kept.patch === null) choose(0);
    else choose(clamp(0, row(kept.patch) + step[0], down - 1) * across
      + clamp(0, column(kept.patch) + step[1], across - 1));
  };
  const plain = make("canvas", { width, height, role: "img", "aria-label": "The image.", onclick: click });
  const canvas = make("canvas", { width, height, tabindex: "0", role: "application", onclick: click, onkeydown: key,
    "aria-label": "Where a patch looks. Arrow keys choose the patch, Escape shows the mean over all." });
  const table = asTable(upTo(last + 1).map(where), ["weight"], (patch) => share(looked()[patch]));
  const choices = choosers(weights.layers, weights.heads, kept, paint);
  painted(canvas, paint);
  return make("div", {}, make("div.controls", {}, choices.element, together), title, line,
    make("div.patches", {}, make("figure", {}, canvas, caption),
      make("figure", {}, plain, make("figcaption", {}, "the image"))),
    weights.said(), table);
};

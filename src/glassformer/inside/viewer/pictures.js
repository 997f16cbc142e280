// Images: small ones in rows, and one with the attention between its patches.

function picture(packed) {
  const [height, width, channels] = packed.shape, values = array(packed);
  const canvas = make("canvas", { width, height }), pen = canvas.getContext("2d"),
    data = pen.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let part = 0; part < 3; part++) data.data[4 * i + part] = values[i * channels + (channels < 3 ? 0 : part)];
    data.data[4 * i + 3] = channels === 4 ? values[i * channels + 3] : 255;
  }
  pen.putImageData(data, 0, 0);
  return canvas;
}

drawers.gallery = (panel) => make("div.gallery", {}, ...panel.images.map((image, at) => {
  const canvas = picture(image);
  furnish(canvas, { role: "img", "aria-label": panel.captions[at] || `image ${at}` }, []);
  return make("figure", {}, canvas, make("figcaption", {}, panel.captions[at] ?? ""));
}));

drawers.patches = (panel, kept) => {
  const weights = new Weights(panel.weights), [down, across] = panel.grid, image = picture(panel.pixels);
  kept.layer = within(kept.layer === undefined ? panel.layer : kept.layer, weights.layers);
  kept.head = within(kept.head === undefined ? panel.head : kept.head, weights.heads);
  kept.patch ??= null;
  if (kept.patch >= down * across) kept.patch = null;
  const line = reading(""), title = make("p.small", { style: "margin:0 0 .3rem" }), caption = make("figcaption");
  const size = Math.max(1, Math.min(420 / image.width, 420 / image.height)), wide = Math.round(image.width * size),
    high = Math.round(image.height * size);
  const scaled = (attributes) => make("canvas", { width: wide, height: high, ...attributes });
  const plain = scaled({ role: "img", "aria-label": "The image." });
  const canvas = scaled({ tabindex: "0", role: "application",
    "aria-label": "Where a patch looks. Arrow keys choose the patch, Escape shows the mean over all." });
  const where = (patch) => `row ${Math.floor(patch / across)}, column ${patch % across}`;

  // What the chosen patch looks at, or all patches in the mean.
  const looked = () => {
    const values = weights.of(kept.layer, kept.head), columns = weights.columns;
    if (kept.patch !== null) return values.subarray(kept.patch * columns, (kept.patch + 1) * columns);
    const mean = new Float32Array(columns);
    values.forEach((weight, i) => { mean[i % columns] += weight / weights.rows; });
    return mean;
  };

  const paint = () => {
    const first = plain.getContext("2d"), pen = canvas.getContext("2d"), part = looked(),
      most = Math.max(...part, 2 / part.length);
    for (const one of [first, pen]) {
      one.imageSmoothingEnabled = false;
      one.clearRect(0, 0, wide, high);
    }
    first.drawImage(image, 0, 0, wide, high);
    pen.filter = "grayscale(1) contrast(.75)"; // in grey, so that the colour above it is only the weight's
    pen.drawImage(image, 0, 0, wide, high);
    pen.filter = "none";
    const box = (patch) => [(patch % across) * wide / across, Math.floor(patch / across) * high / down, wide / across,
      high / down];
    for (let patch = 0; patch < down * across; patch++) {
      pen.globalAlpha = 0.82 * part[patch] / most;
      pen.fillStyle = "#e66900";
      pen.fillRect(...box(patch));
    }
    pen.globalAlpha = 1;
    if (kept.patch !== null) for (const one of [first, pen])
      for (const [colour, thick] of [["#ffffff", 5], ["#0069a8", 2.5]]) {
      one.strokeStyle = colour;
      one.lineWidth = thick;
      one.strokeRect(...box(kept.patch));
    }
    title.textContent = meaning(weights.layers, weights.heads, kept.layer, kept.head);
    const top = Array.from(part, (weight, patch) => [weight, patch]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const list = top.map(([weight, patch]) => `${where(patch)} (${share(weight)})`).join("; ");
    line.textContent = kept.patch === null ? `All patches together look most at ${list}`
      : `The patch in ${where(kept.patch)} looks most at ${list}`;
    caption.textContent = kept.patch === null ? "where all patches look, in the mean; choose one by a click"
      : "where the patch in the frame looks";
    mean.setAttribute("aria-pressed", kept.patch === null);
  };
  const choose = (patch) => { kept.patch = patch; paint(); };
  const mean = make("button", { type: "button", onclick: () => choose(null) }, "all patches");
  for (const one of [plain, canvas]) one.addEventListener("click", (event) => {
    const frame = one.getBoundingClientRect(),
      at = (place, length, cells) => Math.max(0, Math.min(cells - 1, Math.floor(place / length * cells)));
    choose(at(event.clientY - frame.top, frame.height, down) * across + at(event.clientX - frame.left, frame.width,
      across));
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step && event.key !== "Escape") return;
    event.preventDefault();
    if (!step) choose(null);
    else if (kept.patch === null) choose(0);
    else {
      const row = Math.max(0, Math.min(down - 1, Math.floor(kept.patch / across) + step[0]));
      choose(row * across + Math.max(0, Math.min(across - 1, kept.patch % across + step[1])));
    }
  });
  const choices = choosers(weights.layers, weights.heads, kept, paint);
  painters.set(canvas, paint);
  paint();
  const names = Array.from({ length: down * across }, (_, patch) => where(patch));
  return make("div", {}, make("div.controls", {}, choices.element, mean), title, line,
    make("div.patches", {}, make("figure", {}, plain, make("figcaption", {}, "the image")),
      make("figure", {}, canvas, caption)),
    weights.kept ? make("p.small", {}, weights.said()) : "",
    asTable(names, ["weight"], (patch) => share(looked()[patch])));
};

// What each panel offers beside itself: its picture as SVG or PNG, its numbers as JSON.

const SHARP = 2; // pixels of a copied picture for each on the page
const LOOKS = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity",
  "paint-order", "font-size", "font-family", "font-weight", "text-anchor"];

function tools(panel, section) {
  const what = panel.title || `a panel of ${panel.kind}`, told = make("span.told", { role: "status" });
  const menu = make("div.menu", { role: "menu", "aria-label": what, hidden: true });
  const turn = (open) => {
    menu.hidden = !open;
    opener.setAttribute("aria-expanded", open);
    if (!open) return;
    const drawn = section.querySelector("svg");
    const entries = [drawn && ["copy SVG", "svg", () => text("svg", vector(section))],
      ["copy PNG", "png", () => raster(section)],
      ["copy numbers (JSON)", "json", () => text("json", JSON.stringify(unpacked(panel)))]].filter(Boolean);
    const items = entries.map(([label, ending, made]) => button(label, async () => {
      turn(false);
      opener.focus();
      told.textContent = await hand(await made(), `${what.replace(/[^\p{L}\p{N}]+/gu, "-")}.${ending}`);
      setTimeout(() => { told.textContent = ""; }, 2500);
    }, { role: "menuitem" }));
    menu.replaceChildren(...items);
    roving(items, 1);
    items[0].focus();
  };
  const opener = button("⋯", () => turn(menu.hidden),
    { "aria-label": `export: ${what}`, title: "export", "aria-haspopup": "menu", "aria-expanded": false });
  return make("div.tools", {
    onkeydown: (event) => {
      if (event.key !== "Escape" || menu.hidden) return;
      turn(false);
      opener.focus();
    },
    onfocusout: (event) => { if (!menu.parentElement.contains(event.relatedTarget)) turn(false); },
  }, told, opener, menu);
}

function text(ending, words) {
  return new Blob([words], { type: ending === "svg" ? "image/svg+xml" : "application/json" });
}

// To the clipboard, or, where that is out of reach (a notebook's frame), into a file. Says which.
async function hand(blob, name) {
  try {
    if (self !== top) throw new Error("a frame");
    if (blob.type === "image/png") await navigator.clipboard.write([new ClipboardItem({ [blob.type]: blob })]);
    else await navigator.clipboard.writeText(await blob.text());
    return "copied";
  } catch {
    const href = URL.createObjectURL(blob);
    make("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
    return `saved as ${name}`;
  }
}

// A panel's arrays as lists of numbers; weights that the page does not hold are 0.
function unpacked(value, name = "") {
  if (Array.isArray(value)) return value.map((one) => unpacked(one));
  if (value === null || typeof value !== "object") return value;
  if (!value.shape)
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, unpacked(one, key)]));
  const digits = name === "weights" ? 3 : 6; // these are bytes
  const nested = (flat, [size, ...rest]) => (!rest.length ? Array.from(flat, (one) => Number(one.toPrecision(digits)))
    : upTo(size).map((i) => nested(flat.subarray(i * flat.length / size, (i + 1) * flat.length / size), rest)));
  if (name !== "weights") return nested(array(value), value.shape);
  const weights = new Weights(value), [layers, heads, ...rest] = value.shape;
  return upTo(layers).map((layer) => upTo(heads).map((head) => nested(weights.of(layer, head), rest)));
}

// A chart as one vector picture that needs no style sheet, with its title and legend.
function vector(section) {
  const chart = section.querySelector("svg"), copy = chart.cloneNode(true), drawn = chart.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, at) => {
    const style = getComputedStyle(drawn[at]);
    for (const look of LOOKS) element.setAttribute(look, style.getPropertyValue(look));
  });
  copy.querySelector(".guide")?.remove();
  const { width, height } = chart.viewBox.baseVal, words = [];
  const write = (x, y, letters, bold) => words.push(svg("text", { x, y, fill: hue("--ink"), "font-family": FONT,
    "font-size": bold ? 16 : 13, "font-weight": bold ? 600 : 400 }, letters));
  let x = 0, y = 22;
  const title = section.querySelector("h3")?.textContent;
  if (title) write(0, y, title, true);
  else y = 0;
  ruler.font = font(13);
  for (const entry of section.querySelectorAll(".legend > :not([aria-pressed=false])")) {
    const wide = ruler.measureText(entry.textContent).width + 40;
    if (x === 0 || x + wide > width) [x, y] = [0, y + 22];
    words.push(svg("rect", { x, y: y - 6, width: 16, height: 4, rx: 2,
      fill: getComputedStyle(entry.querySelector("i")).backgroundColor }));
    write(x + 22, y, entry.textContent, false);
    x += wide;
  }
  furnish(copy, { x: 0, y: y + 10 });
  return pictured(width, height + y + 10, 16, ...words, copy);
}

// A vector picture as text, on the colour of a panel, with so much room around it.
function pictured(width, height, room, ...parts) {
  const [wide, high] = [width + 2 * room, height + 2 * room], viewBox = `${-room} ${-room} ${wide} ${high}`;
  return new XMLSerializer().serializeToString(svg("svg", { width: wide, height: high, viewBox },
    svg("rect", { x: -room, y: -room, width: wide, height: high, fill: hue("--card") }), ...parts));
}

// The whole panel as pixels: a chart from its vectors, all else as the browser lays it out.
async function raster(section) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${
    encodeURIComponent(section.querySelector("svg") ? vector(section) : framed(section))}`;
  await image.decode();
  const canvas = make("canvas", { width: image.width * SHARP, height: image.height * SHARP });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

// A copy of a panel within a vector picture, with the page's own style and its canvases as they are.
function framed(section) {
  const style = [...document.styleSheets].flatMap((one) => [...one.cssRules]).map((rule) => rule.cssText).join("\n"), copy = section.cloneNode(true);
  const canvases = section.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((one, at) => {
    const { width, height } = canvases[at].getBoundingClientRect(), { imageRendering } = getComputedStyle(canvases[at]);
    one.replaceWith(make("img", { src: canvases[at].toDataURL(),
      style: `width:${width}px;height:${height}px;image-rendering:${imageRendering}` }));
  });
  const { fontFamily, fontSize, lineHeight } = getComputedStyle(document.body);
  const colours = new Set(style.match(/--[\w-]+(?=:)/g));
  const stand = make("div.copying",
    { style: `width:${section.offsetWidth}px;font:${fontSize}/${lineHeight} ${fontFamily}` }, copy);
  for (const name of colours) stand.style.setProperty(name, hue(name));
  document.body.append(stand); // to know its height
  const width = stand.offsetWidth, height = stand.offsetHeight;
  stand.remove();
  stand.style.position = "static";
  return pictured(width, height, 0, svg("foreignObject", { width, height }, make("style", {}, style), stand));
}

// What every panel needs: elements, numbers in words, arrays out of bytes, and being drawn anew when the light changes.

// kind → (panel, kept) → element; what is kept outlives a panel, so that its next moment looks the same
const drawers = {};
const PAPER = 680; // pixels across a printed page
const dark = matchMedia("(prefers-color-scheme: dark)");
const print = matchMedia("print");
const painters = new Map();
let onPaper = false;

// make("td.number", { title: "…" }, children…)
function make(what, attributes = {}, ...children) {
  const [name, ...classes] = what.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  return furnish(element, attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value));
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name,
      value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function bytes(text) {
  const letters = atob(text), out = new Uint8Array(letters.length);
  for (let i = 0; i < out.length; i++) out[i] = letters.charCodeAt(i);
  return out;
}

function array(packed) {
  return packed.f32 === undefined ? bytes(packed.u8) : new Float32Array(bytes(packed.f32).buffer);
}

// A token as one can see it: without the blanks around it, a blank alone as an open box.
function shown(token) {
  const bare = token.replace(/^ +| +$/g, "").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "␣";
  const letters = Array.from(bare);
  return letters.length <= 24 ? bare : letters.slice(0, 23).join("") + "…";
}

// Isolated, so that a word written from right to left does not turn its neighbours around.
function isolated(token) {
  return /[\u0590-\u08ff\ufb1d-\ufefc]/.test(token) ? `\u2068${shown(token)}\u2069` : shown(token);
}

function said(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  let text;
  if (Number.isInteger(number) || size >= 1000) text = Math.round(size).toLocaleString("en");
  else if (size >= 0.001) text = String(Number(size.toPrecision(4)));
  else text = size.toExponential(1).replace("e-", "e−");
  return (number < 0 && Number(text) !== 0 ? "−" : "") + text;
}

// Short enough for a cell.
function brief(number) {
  if (number === null || !Number.isFinite(number) || number === 0) return said(number);
  const size = Math.abs(number);
  if (Number.isInteger(number) || size >= 100) return said(Math.round(number));
  const text = size >= 10 ? size.toFixed(1) : size.toFixed(2);
  return (number < 0 && Number(text) !== 0 ? "−" : "") + text;
}

function share(weight) {
  return weight > 0 && weight < 0.005 ? "<0.01" : weight.toFixed(2);
}

// The line that says what is under the cursor, to the eye and to a screen reader.
function reading(hint) {
  return make("p.reading", { "aria-live": "polite", "data-hint": hint });
}

// `paint(width)` runs when the element is first laid out, when its width changes, in another light, and for paper.
function sized(element, paint) {
  let width = 0;
  const again = () => {
    const room = onPaper ? PAPER : element.clientWidth;
    if (room) paint(room);
  };
  const watch = new ResizeObserver(() => requestAnimationFrame(() => {
    if (element.clientWidth === width || onPaper) return;
    width = element.clientWidth;
    again();
  }));
  watch.observe(element);
  painters.set(element, again);
  return element;
}

function repaint() {
  mixColours();
  forget();
  for (const paint of [...painters.values()]) paint();
}

// Panels that left the page need no painting any more.
function forget() {
  for (const element of painters.keys()) if (!element.isConnected) painters.delete(element);
}

function chooser(label, names, value, chosen) {
  const select = make("select",
    { "aria-label": label, onchange: () => chosen(select.value === "" ? null : Number(select.value)) });
  names.forEach(([name, each]) => select.append(make("option", { value: each === null ? "" : each }, name)));
  select.value = value === null ? "" : value;
  return make("label", {}, label, select);
}

function several(label, names, value, chosen) {
  const buttons = names.map((name) => make("button",
    { type: "button", "aria-pressed": name === value, onclick: () => pick(name) }, name));
  const pick = (name) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", button.textContent === name));
    chosen(name);
  };
  return make("span.several", { role: "group", "aria-label": label }, ...buttons);
}

// The layer and the head of a panel; null is the mean over all.
function choosers(layers, heads, kept, changed, names = []) {
  const counted = (count, what, whole = "mean") => [[whole, null],
    ...Array.from({ length: count }, (_, i) => [what(i), i])];
  const named = (head) => {
    const name = kept.layer === null ? "" : names[kept.layer]?.[head];
    return name ? `${head} · ${name}` : String(head);
  };
  const head = () => chooser("head", counted(heads, named, kept.mode === "lines" ? "all" : "mean"), kept.head,
    (value) => { kept.head = value; changed("head"); });
  const line = make("span.choosers");
  const fill = () => {
    const layer = chooser("layer", counted(layers, String), kept.layer, (value) => {
      kept.layer = value;
      if (heads > 1) line.lastChild.replaceWith(head());
      changed("layer");
    });
    line.replaceChildren(...(layers > 1 ? [layer] : []), ...(heads > 1 ? [head()] : []));
  };
  fill();
  return { element: line, fill };
}

function meaning(layers, heads, layer, head, names = []) {
  const name = layer !== null && head !== null && names[layer]?.[head];
  if (name) return `Layer ${layer}, head ${head}: ${name}`;
  if (layers * heads === 1) return "";
  if (layer === null && head === null) return `The mean over ${count(layers, "layer")} and ${count(heads, "head")}`;
  if (layer === null) return `Head ${head}, the mean over ${count(layers, "layer")}`;
  return head === null ? `Layer ${layer}, the mean over ${count(heads, "head")}` : `Layer ${layer}, head ${head}`;
}

function count(number, what) {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

const MOST_TABLED = 64;

// The same as a table, made when it is opened.
function asTable(rows, columns, cell) {
  if (rows.length > MOST_TABLED || columns.length > MOST_TABLED) return "";
  const place = make("div", { tabindex: "0", role: "region", "aria-label": "as a table" });
  const details = make("details", { ontoggle: () => fill() }, make("summary", {}, "as a table"), place);
  const fill = () => {
    if (!details.open) return;
    const head = make("tr", {}, make("td"),
      ...columns.map((name) => make("th", { scope: "col" }, make("bdi", {}, shown(name)))));
    const body = rows.map((name, row) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, shown(name))),
      ...columns.map((_, column) => make("td.number", {}, cell(row, column)))));
    place.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  };
  details.refill = fill;
  return details;
}

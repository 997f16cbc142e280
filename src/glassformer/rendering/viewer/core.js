// What every panel needs: elements, numbers in words, arrays out of bytes, and being drawn anew when the light changes.

// kind → (panel, kept) → element; what is kept outlives a panel, so that its next moment looks the same
const drawers = {};
const PAPER = 680; // pixels across a printed page
const MOST_TABLED = 64;
const dark = matchMedia("(prefers-color-scheme: dark)");
const painters = new Map();
const unpainted = new Set();
let onPaper = false;

// make("td.number", { title: "…" }, children…)
function make(what, attributes = {}, ...children) {
  const [name, ...classes] = what.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  return furnish(element, attributes, ...children);
}

function svg(name, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, ...children);
}

function furnish(element, attributes, ...children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (name === "style") element.style.cssText = value; // an attribute would be refused where no page may have any
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== "" && child !== false));
  return element;
}

function button(label, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, label);
}

function pressed(element, yes) {
  element.setAttribute("aria-pressed", yes);
}

function upTo(number) {
  return Array.from({ length: number }, (_, i) => i);
}

function clamp(low, value, high) {
  return Math.max(low, Math.min(high, value));
}

function toggled(list, one) {
  return list.includes(one) ? list.filter((other) => other !== one) : [...list, one];
}

function bytes(text) {
  const letters = atob(text), out = new Uint8Array(letters.length);
  for (let i = 0; i < out.length; i++) out[i] = letters.charCodeAt(i);
  return out;
}

function array(packed) {
  return packed.f32 === undefined ? bytes(packed.u8) : new Float32Array(bytes(packed.f32).buffer);
}

// A token as a label: without the blanks around it, a blank alone as an open box.
function shown(token) {
  return shortened(token.replace(/^ +| +$/g, "") || "␣");
}

// A token where its blanks matter, as in a sentence: ·was
function visible(token) {
  return shortened(token.replace(/^ +| +$/g, (blanks) => (blanks === token ? "␣" : "·").repeat(blanks.length)) || "∅");
}

function shortened(token) {
  const letters = Array.from(token.replaceAll("\n", "⏎").replaceAll("\t", "⇥"));
  return letters.length <= 24 ? letters.join("") : letters.slice(0, 23).join("") + "…";
}

// In a sentence; isolated, so that a word written from right to left does not turn its neighbours around.
function isolated(token) {
  return /[\u0590-\u08ff\ufb1d-\ufefc]/.test(token) ? `\u2068${visible(token)}\u2069` : visible(token);
}

function signed(number, text) {
  return (number < 0 && Number(text) !== 0 ? "−" : "") + text;
}

function said(number) {
  return withDigits(number, 3);
}

function withDigits(number, digits) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  if (Number.isInteger(number) || size >= 1000) return signed(number, Math.round(size).toLocaleString("en"));
  if (size >= 0.001) return signed(number, String(Number(size.toPrecision(digits))));
  return signed(number, Number(size.toPrecision(digits)).toExponential().replace("e-", "e−"));
}

// Short enough for a cell.
function brief(number) {
  const size = Math.abs(number);
  if (!Number.isFinite(number) || Number.isInteger(number)) return said(number);
  return size >= 100 ? said(Math.round(number)) : size < 0.0995 ? said(number) : signed(number, size.toPrecision(3));
}

// A probability in three digits, never as a power of ten.
function chance(number) {
  return number > 0 && number < 0.001 ? "<0.001" : said(number);
}

function share(weight) {
  return weight > 0 && weight < 0.005 ? "<0.01" : weight.toFixed(2);
}

function count(number, what) {
  return `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
}

// The places of the largest values, the largest first.
function largest(values, most) {
  return upTo(values.length).sort((a, b) => values[b] - values[a]).slice(0, most);
}

// "cat 0.61, sat 0.20": where most of the weight is.
function mostOf(weights, names, most, least = 0) {
  const places = largest(weights, most).filter((i) => weights[i] > least);
  return places.map((i) => `${isolated(names[i])} ${share(weights[i])}`).join(", ") || "nothing";
}

// The line that says what is under the cursor, to the eye and to a screen reader.
function reading(hint) {
  return make("p.reading", { "aria-live": "polite", "data-hint": hint });
}

// `paint` runs now, in another light, and for paper.
function painted(element, paint) {
  painters.set(element, paint);
  paint();
  return element;
}

// `paint(width)` runs when the element is first laid out, when its width changes, in another light, and for paper.
function sized(element, paint) {
  let width = 0;
  const again = () => {
    const room = onPaper ? PAPER : element.clientWidth;
    if (!onPaper) width = room;
    if (!room) return;
    unpainted.delete(element);
    paint(room);
  };
  const watch = new ResizeObserver(() => requestAnimationFrame(() => { if (element.clientWidth !== width && !onPaper) again(); }));
  watch.observe(element);
  painters.set(element, again);
  unpainted.add(element);
  return element;
}

// What was just put into the page is painted now, not when it is next laid out.
function paintNow() {
  for (const element of [...unpainted]) painters.get(element)?.();
}

function repaint() {
  mixColours();
  forget();
  for (const paint of [...painters.values()]) paint();
}

// Panels that left the page need no painting any more.
function forget() {
  for (const element of painters.keys()) if (!element.isConnected) { painters.delete(element); unpainted.delete(element); }
}

function several(label, names, value, chosen) {
  const press = (name) => buttons.forEach((one) => pressed(one, one.textContent === name));
  const buttons = names.map((name) => button(name, () => { press(name); chosen(name); }));
  press(value);
  return { element: make("span.several", { role: "group", "aria-label": label }, ...buttons), press };
}

function chooser(what, number, name, whole, kept, changed) {
  const choose = () => {
    kept[what] = select.value === "" ? null : Number(select.value);
    changed(what);
  };
  const select = make("select", { "aria-label": what, onchange: choose },
    make("option", { value: "" }, whole), ...upTo(number).map((i) => make("option", { value: i }, name(i))));
  select.value = kept[what] ?? "";
  return make("label", {}, what, select);
}

// The layer and the head of a panel; null is the mean over all.
function choosers(layers, heads, kept, changed, names = []) {
  const element = make("span.choosers");
  const name = (head) => (names[kept.layer]?.[head] ? `${head} · ${names[kept.layer][head]}` : String(head));
  const head = () => chooser("head", heads, name, kept.mode === "lines" ? "all" : "mean", kept, changed);
  const layer = () => chooser("layer", layers, String, "mean", kept, (what) => {
    if (heads > 1) element.lastChild.replaceWith(head()); // heads of another layer have other names
    changed(what);
  });
  const fill = () => element.replaceChildren(...(layers > 1 ? [layer()] : []), ...(heads > 1 ? [head()] : []));
  fill();
  return { element, fill };
}

// What was chosen before, or else what the panel begins with; the mean where there is no such layer or head.
function begin(kept, panel, { layers, heads }) {
  for (const [what, number] of [["layer", layers], ["head", heads]]) {
    const wanted = kept[what] === undefined ? panel[what] : kept[what];
    kept[what] = wanted < number ? wanted : null;
  }
}

function meaning(layers, heads, layer, head, names = []) {
  if (names[layer]?.[head]) return `Layer ${layer}, head ${head}: ${names[layer][head]}`;
  if (layers * heads === 1) return "";
  if (layer === null && head === null) return `The mean over ${count(layers, "layer")} and ${count(heads, "head")}`;
  if (layer === null) return `Head ${head}, the mean over ${count(layers, "layer")}`;
  return head === null ? `Layer ${layer}, the mean over ${count(heads, "head")}` : `Layer ${layer}, head ${head}`;
}

// The same as a table, made when it is opened.
function asTable(rows, columns, cell) {
  if (rows.length > MOST_TABLED || columns.length > MOST_TABLED) return "";
  const place = make("div", { tabindex: "0", role: "region", "aria-label": "as a table" });
  const details = make("details", { ontoggle: () => fill() }, make("summary", {}, "as a table"), place);
  const title = (scope, name) => make("th", { scope }, make("bdi", {}, shown(name)));
  const fill = () => {
    if (!details.open) return;
    const head = make("tr", {}, make("td"), ...columns.map((name) => title("col", name)));
    const body = rows.map((name, row) => make("tr", {}, title("row", name),
      ...columns.map((_, column) => make("td.number", {}, cell(row, column)))));
    place.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  };
  details.refill = fill;
  return details;
}

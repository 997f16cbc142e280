// One scale for amounts (nothing → blue) and one for signed numbers (orange ← nothing → blue), in light and in dark.

const SCALES = {
  light: { up: ["#f1f5f9", "#9cc7e8", "#3a8cc4", "#00507f"], down: ["#f1f5f9", "#f3c19b", "#dd7a2c", "#8f3d00"] },
  dark: { up: ["#1d2630", "#1f4f78", "#3b8fcb", "#a9dcff"], down: ["#1d2630", "#6b3a14", "#cf7a33", "#ffcfa3"] },
};
const STEPS = 256;
const OWN_COLOURS = 12;
let tables = {};

function mixColours() {
  const stops = SCALES[dark.matches && !onPaper ? "dark" : "light"];
  const table = (colours) => upTo(STEPS).map((step) => blend(colours.map(rgb), step / (STEPS - 1)));
  tables = { up: table(stops.up), down: table(stops.down), none: rgb(hue("--void")) };
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function blend(stops, part) {
  const place = part * (stops.length - 1), before = Math.min(Math.floor(place), stops.length - 2);
  return stops[before].map((from, i) => Math.round(from + (stops[before + 1][i] - from) * (place - before)));
}

// part: 0 to 1, or −1 to 1 on the signed scale; NaN is no value at all.
function shade(part) {
  if (Number.isNaN(part)) return tables.none;
  return (part < 0 ? tables.down : tables.up)[Math.round(Math.min(1, Math.abs(part)) * (STEPS - 1))];
}

// The pixels of an image, one colour each.
function stain(image, colourOf) {
  const pixels = new Uint32Array(image.data.buffer), known = new Map();
  for (let i = 0; i < pixels.length; i++) {
    const colour = colourOf(i);
    let pixel = known.get(colour);
    if (pixel === undefined) {
      pixel = ((255 << 24) | (colour[2] << 16) | (colour[1] << 8) | colour[0]) >>> 0;
      known.set(colour, pixel);
    }
    pixels[i] = pixel;
  }
}

// Lines across what is masked: no weight could be there.
function hatching(pen) {
  const tile = make("canvas", { width: 6, height: 6 }), brush = tile.getContext("2d");
  brush.fillStyle = hue("--card");
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = hue("--hatch");
  for (const x of [-6, 0, 6]) {
    brush.moveTo(x - 1, 7);
    brush.lineTo(x + 7, -1);
  }
  brush.stroke();
  return pen.createPattern(tile, "repeat");
}

function css(colour) {
  return `rgb(${colour.join(" ")})`;
}

// Black or white, whichever can be read: one of them always stands out by 4.5 to 1 or more.
function inkOn(colour) {
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = colour.map((part) => linear(part / 255));
  const bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (bright + 0.05) / 0.05 > 1.05 / (bright + 0.05) ? "#000" : "#fff";
}

// Behind an element, with letters that can be read on it.
function back(element, part) {
  const colour = shade(part);
  element.style.setProperty("--own", css(colour));
  Object.assign(element.style, { background: css(colour), color: inkOn(colour) });
}

// One of the colours that page.css names.
function hue(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function own(number) {
  return `var(--c${number % OWN_COLOURS})`;
}

// Where a value stands between the ends of its scale; NaN where it has no place.
function placed(value, scale) {
  if (!Number.isFinite(value)) return NaN;
  const { low, high } = scale;
  if (!scale.signed) return high > low ? clamp(0, (value - low) / (high - low), 1) : 0;
  return value < 0 ? -Math.min(1, low < 0 ? value / low : 1) : Math.min(1, high > 0 ? value / high : 0);
}

// The scale's ends, from what is given and what there is.
function ends(values, panel) {
  let most = -Infinity;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, panel.signed ? Math.abs(value) : value);
  const high = panel.high ?? (most > -Infinity ? most : 1);
  return { low: panel.low ?? (panel.signed ? -high : Math.min(0, high)), high, signed: panel.signed };
}

// One scale for panels that are read side by side, where they have any.
function sharedScale(...panels) {
  if (!panels.every((one) => one && "signed" in one && one.kind === panels[0].kind)) return {};
  const all = panels.map((one) => ends(array(one.values), one));
  return { low: Math.min(...all.map((one) => one.low)), high: Math.max(...all.map((one) => one.high)) };
}

function scaleBar(scale, masked = false) {
  const bar = make("i");
  painted(bar, () => {
    const steps = upTo(17).map((i) => css(shade(scale.signed ? i / 8 - 1 : i / 16)));
    bar.style.background = `linear-gradient(to right, ${steps.join(",")})`;
  });
  const end = (number) => make("strong", {}, (number > 0 && scale.signed ? "+" : "") + brief(number));
  return make("div.scale", { "aria-hidden": "true" }, "scale", end(scale.low), bar, end(scale.high),
    masked && make("span.masked", {}, make("i.hatched"), "masked: may not be looked at"));
}

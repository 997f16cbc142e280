// One scale for amounts (nothing → blue) and one for signed numbers (orange ← nothing → blue), in light and in dark.

const SCALES = {
  light: { up: ["#f1f5f9", "#9cc7e8", "#3a8cc4", "#00507f"], down: ["#f1f5f9", "#f3c19b", "#dd7a2c", "#8f3d00"] },
  dark: { up: ["#1d2630", "#1f4f78", "#3b8fcb", "#a9dcff"], down: ["#1d2630", "#6b3a14", "#cf7a33", "#ffcfa3"] },
};
const STEPS = 256;
let tables = {};

function mixColours() {
  const table = (stops) => Array.from({ length: STEPS }, (_, step) => blend(stops, step / (STEPS - 1)));
  tables = { up: table(SCALES[light()].up), down: table(SCALES[light()].down) };
}

function light() {
  return dark.matches && !onPaper ? "dark" : "light";
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function blend(stops, share) {
  const place = share * (stops.length - 1), before = Math.min(Math.floor(place), stops.length - 2);
  const [from, to] = [rgb(stops[before]), rgb(stops[before + 1])];
  return from.map((part, i) => Math.round(part + (to[i] - part) * (place - before)));
}

// share: 0 to 1, or −1 to 1 on the signed scale.
function shade(share) {
  return (share < 0 ? tables.down : tables.up)[Math.round(Math.min(1, Math.abs(share)) * (STEPS - 1))];
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

function css(colour) {
  return `rgb(${colour.join(" ")})`;
}

// Black or white, whichever can be read: one of them always stands out by 4.5 to 1 or more.
function inkOn(colour) {
  const linear = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92
    : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const bright = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return (bright + 0.05) / 0.05 > 1.05 / (bright + 0.05) ? "#000" : "#fff";
}

function named(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

const OWN_COLOURS = 12;

function own(number) {
  return `var(--c${number % OWN_COLOURS})`;
}

// Where a value stands between the ends of its scale; NaN where it has no place.
function placed(value, { low, high, signed }) {
  if (!Number.isFinite(value)) return NaN;
  if (signed) return value < 0 ? -Math.min(1, low < 0 ? value / low : 1) : Math.min(1, high > 0 ? value / high : 0);
  return high > low ? Math.max(0, Math.min(1, (value - low) / (high - low))) : 0;
}

// The scale's ends, from what is given and what there is.
function ends(values, { low = null, high = null, signed = false }) {
  let largest = -Infinity;
  for (const value of values) if (Number.isFinite(value)) largest = Math.max(largest, signed ? Math.abs(value) : value);
  const top = high ?? (largest > -Infinity ? largest : 1);
  const bottom = low ?? (signed ? -top : Math.min(0, top));
  return { low: bottom, high: top, signed };
}

function scaleBar(scale, text = brief) {
  const bar = make("i");
  const paint = () => {
    const steps = Array.from({ length: 17 }, (_, i) => css(shade(scale.signed ? i / 8 - 1 : i / 16)));
    bar.style.background = `linear-gradient(to right, ${steps.join(",")})`;
  };
  const line = make("div.scale", { "aria-hidden": "true" }, make("span", {}, text(scale.low)), bar,
    make("span", {}, text(scale.high)));
  painters.set(bar, paint);
  paint();
  return line;
}

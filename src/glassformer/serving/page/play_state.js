// What a person has chosen, kept in the address: reload restores it, back goes back.

const BEGINNING = {
  run: null, second: null, text: null, other: null, show: null, beside: null, head: null, mode: "heat", dials: {},
  temperature: 1, topK: null, topP: null, beam: 5, update: null, patch: null,
};
const CALM = 1200; // milliseconds: changes closer to each other are one step of back

export const state = { ...BEGINNING };
let written = 0, last = "", stepping = false, writing = null, heard = () => {};

const numbers = ["temperature", "topK", "topP", "beam", "update"];

function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)), out = { ...BEGINNING, dials: {} };
  for (const [name, value] of given) {
    if (name === "dials") {
      for (const one of value.split(",")) {
        const [head, scale] = one.split("=");
        if (/^[a-z]+:\d+\.\d+$/.test(head) && Number.isFinite(Number(scale))) out.dials[head] = Math.min(2, Math.max(0, Number(scale)));
      }
    } else if (numbers.includes(name)) {
      if (value !== "" && Number.isFinite(Number(value))) out[name] = Number(value);
    } else if (name === "patch") {
      const [layer, position] = value.split(".").map(Number);
      if (Number.isInteger(layer) && Number.isInteger(position)) out.patch = { layer, position };
    } else if (name in BEGINNING) out[name] = value;
  }
  return out;
}

function toAddress() {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (name === "dials") {
      const dials = Object.entries(value).filter(([, scale]) => scale !== 1).map(([head, scale]) => `${head}=${scale}`);
      if (dials.length) given.set(name, dials.join(","));
    } else if (name === "patch") {
      if (value) given.set(name, `${value.layer}.${value.position}`);
    } else if (value !== BEGINNING[name] && value !== null) {
      if (String(value).length < 4000) given.set(name, value); // an image is too long for an address
    }
  }
  return `#${given}`;
}

/** Listen to every change, also those by the address: the names of what changed, or "all". */
export function begin(listener) {
  heard = listener;
  Object.assign(state, fromAddress());
  last = toAddress();
  addEventListener("popstate", () => {
    Object.assign(state, fromAddress());
    last = toAddress();
    heard("all");
  });
}

/** Change some of it; `step`: one may go back to what was before. The address follows: to write it takes milliseconds. */
export function choose(part, { step = true, quiet = false } = {}) {
  Object.assign(state, part);
  stepping ||= step;
  writing ??= setTimeout(write);
  if (!quiet) heard(Object.keys(part));
}

function write() {
  const address = toAddress(), now = performance.now();
  if (address !== last) {
    if (stepping && now - written > CALM) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    written = now;
    last = address;
  }
  writing = null;
  stepping = false;
}

export const headName = (stack, layer, head) => `${stack}:${layer}.${head}`;

export function headOf(name) {
  const match = /^([a-z]+):(\d+)\.(\d+)$/.exec(name ?? "");
  return match && { stack: match[1], layer: Number(match[2]), head: Number(match[3]) };
}

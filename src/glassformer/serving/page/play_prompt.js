// What the model reads: a text and its tokens as chips, a row's columns, or an image.
import { ask } from "/page/client.js";
import { button, make, roving, visible } from "/page/viewer.js";

const tip = document.querySelector("#tip");
const LONGEST = 240; // tokens that are drawn as chips

/** A prompt: `given(example)` hears what is typed, `light(at)` where one points. */
export class Prompt {
  constructor({ label, given, light, closing = null, beside = null }) {
    Object.assign(this, { label, given, light, example: null, shape: null });
    this.place = make("div.field");
    this.chips = make("div.chips", { role: "list", "aria-label": `${label}: tokens` });
    this.remark = make("p.remark", { role: "status" });
    this.element = make("div.one-prompt", {}, make("div.entry", {}, this.place, closing ?? ""), this.remark, make("div.tokens", {}, this.chips, beside ?? ""));
    this.chips.addEventListener("pointerleave", () => { this.light(null); hideTip(); });
  }

  /** Another run may read something else. */
  reads(facts) {
    const shape = facts.reads === "row" ? `row ${facts.columns.map((one) => one.name)}` : facts.reads;
    this.facts = facts;
    if (shape === this.shape) return;
    this.shape = shape;
    this.place.replaceChildren({ text: () => this.textField(), image: () => this.imageField(), row: () => this.rowField() }[facts.reads]());
  }

  textField() {
    this.field = make("textarea", { rows: 1, spellcheck: false, autocomplete: "off", autocapitalize: "off", "aria-label": this.label,
      placeholder: "Type a text …", oninput: () => { this.fit(); this.given(this.field.value); } });
    return this.field;
  }

  imageField() {
    this.picture = make("img", { alt: "the image", hidden: true });
    const file = make("input", { type: "file", accept: "image/*", "aria-label": this.label,
      onchange: () => { if (file.files[0]) this.read(file.files[0]); } });
    return make("div.image", {
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => { event.preventDefault(); if (event.dataTransfer.files[0]) this.read(event.dataTransfer.files[0]); },
    }, this.picture, make("label", {}, "An image, chosen or dropped here", file));
  }

  async read(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let letters = "";
    for (let at = 0; at < bytes.length; at += 8192) letters += String.fromCharCode(...bytes.subarray(at, at + 8192));
    this.put(btoa(letters));
    this.given(this.example);
  }

  rowField() {
    this.inputs = new Map();
    const told = () => this.given(Object.fromEntries([...this.inputs].map(([name, input]) => [name, input.value])));
    return make("div.row", {}, ...this.facts.columns.map(({ name, kind, choices }) => {
      const input = choices.length
        ? make("select", { onchange: told }, ...choices.map((one) => make("option", { value: one }, one || "(none)")))
        : make("input", { type: "text", autocomplete: "off", oninput: told });
      if (kind === "text") input.classList.add("long");
      this.inputs.set(name, input);
      return make("label", {}, name, input);
    }));
  }

  /** Show an example that comes from elsewhere; what is being typed is left alone. */
  put(example) {
    this.example = example;
    if (this.facts.reads === "text") {
      if (this.field.value !== (example ?? "")) this.field.value = example ?? "";
      this.fit();
    } else if (this.facts.reads === "image") {
      this.picture.hidden = !example;
      if (example) this.picture.src = `data:${example.startsWith("/9j/") ? "image/jpeg" : "image/png"};base64,${example}`;
    } else {
      for (const [name, input] of this.inputs) if (input !== document.activeElement) input.value = example?.[name] ?? "";
    }
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, innerHeight * 0.25)}px`;
  }

  say(remarks) {
    this.remark.textContent = remarks.join(" · ");
  }

  /** The tokens; `differ`: places at which they are others than beside it. */
  show(tokens, differ = new Set()) {
    if (this.facts.reads !== "text") { this.chips.replaceChildren(); return; }
    const some = tokens.slice(0, LONGEST), focused = [...this.chips.children].indexOf(document.activeElement);
    const chips = some.map((token, at) => make(`button.chip${token.special ? ".special" : ""}${differ.has(at) ? ".differs" : ""}`,
      { type: "button", role: "listitem", "data-token": at, "aria-label": `${visible(token.text)}${token.id === null ? "" : `, id ${token.id}`}`,
        onpointerenter: (event) => { this.light(at); this.tell(event.currentTarget, token); },
        onfocus: (event) => { if (event.currentTarget.matches(":focus-visible")) { this.light(at); this.tell(event.currentTarget, token); } },
        onblur: () => { this.light(null); hideTip(); } },
      make("bdi", {}, visible(token.text))));
    if (tokens.length > LONGEST) chips.push(make("span.small", {}, `and ${tokens.length - LONGEST} more`));
    this.chips.replaceChildren(...chips);
    const stops = chips.filter((one) => one.matches("button"));
    if (stops.length) roving(stops, 1);
    if (focused >= 0) chips[Math.min(focused, stops.length - 1)]?.focus();
  }

  lit(at) {
    for (const chip of this.chips.children) chip.classList.toggle("lit", at !== null && Number(chip.dataset.token) === at);
  }

  /** Its id, and how byte pairs were merged into it. */
  async tell(chip, token) {
    const lines = [make("p", {}, token.id === null ? "no word" : `id ${token.id}`)];
    showTip(chip, lines);
    if (this.facts.kind !== "bpe" || token.special || token.id === null || !token.text.trim()) return;
    const steps = await mergesOf(this.facts.run, token.text).catch(() => null);
    if (steps && tip.dataset.of === label(chip) && !tip.hidden) showTip(chip, [...lines, make("ol", {}, ...steps.map((one) => make("li", {}, one)))]);
  }
}

const known = new Map();

function mergesOf(run, text) {
  const key = `${run} ${text}`;
  if (!known.has(key)) {
    known.set(key, ask("/api/look", { run, texts: [text], view: "merges" })
      .then((view) => view.panels[0].rows.map((row) => row[3])).catch((error) => { known.delete(key); throw error; }));
  }
  return known.get(key);
}

const label = (chip) => `${chip.dataset.token} ${chip.textContent}`;

function showTip(chip, lines) {
  tip.replaceChildren(...lines);
  tip.dataset.of = label(chip);
  tip.hidden = false;
  const box = chip.getBoundingClientRect();
  tip.style.left = `${Math.max(6, Math.min(box.left, innerWidth - tip.offsetWidth - 6))}px`;
  tip.style.top = `${box.bottom + 6}px`;
}

function hideTip() {
  tip.hidden = true;
}

/** Sentences to begin with. */
export function presetsOf(presets, chosen) {
  return presets.map((one) => {
    const picture = typeof one.example === "string" && one.example.length > 100 && !one.example.includes(" ");
    const inside = picture ? make("img", { src: `data:image/png;base64,${one.example}`, alt: one.name }) : one.name;
    const title = typeof one.example === "string" ? one.example.slice(0, 120) : Object.values(one.example).join(", ").slice(0, 120);
    return button(inside, () => chosen(one.example), picture ? { title: one.name } : { title });
  });
}

/** Places at which the tokens of two texts differ; of two lengths, what is between their common beginning and end. */
export function differing(mine, theirs) {
  const same = (a, b) => a && b && a.text === b.text;
  if (mine.length === theirs.length) return new Set(mine.map((_, at) => at).filter((at) => !same(mine[at], theirs[at])));
  let first = 0, last = 0;
  while (first < mine.length && same(mine[first], theirs[first])) first++;
  while (last < mine.length - first && last < theirs.length - first && same(mine.at(-1 - last), theirs.at(-1 - last))) last++;
  return new Set(mine.map((_, at) => at).slice(first, mine.length - last));
}

// Attention: all heads small, each with its role, a switch and a dial; one of them large.
import { Weights, button, forget, make, paintNow, panelOf, thumbnail, upTo } from "/page/viewer.js";
import { choose, headName, headOf, state } from "/page/play_state.js";

const STACKS = { self: "text", source: "source", target: "written", cross: "written → source" };
const roleName = (role) => (role === "before" ? "same before" : role ?? "");
const projected = matchMedia("(min-width: 1000px) and (min-height: 620px)"); // cards are as high as the window
const PAUSE = 600; // milliseconds from step to step
const THUMB = 64, LETTERS = 14, BELOW = 60; // pixels: the longer side of a small picture; names of tokens; the lines above and beneath the cells
const panelOfStack = ({ view, sizes }, stack) => view.panels[Object.keys(sizes).indexOf(stack)];

/** The panels of `view` come in the order of `sizes` (stack → layers, heads). `light(row, column, stack)` hears where one points. */
export class Attention {
  constructor({ light, follower = null }) {
    const tall = () => (projected.matches ? this.large.clientHeight - BELOW : null);
    Object.assign(this, { light, follower, kept: { heat: { letters: LETTERS, tall }, lines: {} } });
    this.grid = make("div.heads", { role: "group", "aria-label": "heads" });
    this.stacks = make("div.several.stacks");
    this.modes = make("div.several.modes");
    this.dial = make("div.dial");
    this.large = make("div.large");
    this.pane = make("div.large-pane", {}, make("div.controls", {}, this.stacks, this.modes, this.dial), this.large);
    this.element = make("div.attention", {}, this.grid, this.pane);
    this.large.addEventListener("token", ({ detail }) => {
      const { stack } = this.chosen, column = detail?.column ?? null, row = detail?.row ?? null;
      if (stack === "target") this.light(column ?? row, true);
      else this.light(column ?? (stack === "cross" ? null : row), false);
    });
  }

  /** `leader`: the head that is chosen beside it; `beside`: the view and sizes of the other side, drawn on one scale. */
  show({ view, sizes, roles, leader = null, beside = null }) {
    Object.assign(this, { view, sizes, roles, beside });
    const there = leader ?? headOf(state.head), names = Object.keys(sizes);
    const first = names.includes("cross") ? "cross" : names[0], panel = view.panels[names.indexOf(first)];
    const fits = there && sizes[there.stack] && there.layer < sizes[there.stack][0] && there.head < sizes[there.stack][1];
    this.chosen = fits ? there : { stack: first, layer: panel.layer ?? 0, head: panel.head ?? 0 };
    this.weights = names.map((_, at) => new Weights(view.panels[at].weights));
    this.draw();
  }

  get panel() { return panelOfStack(this, this.chosen.stack); }

  draw() {
    const { stack, layer, head } = this.chosen, names = Object.keys(this.sizes);
    this.stacks.hidden = names.length < 2;
    this.stacks.replaceChildren(...names.map((name) => button(STACKS[name] ?? name, () => this.pick(name, 0, 0), { "aria-pressed": name === stack })));
    this.modes.replaceChildren(...["heat", "lines"].map((mode) => button(mode, () => { choose({ mode }, { quiet: true }); this.draw(); }, { "aria-pressed": state.mode === mode })));
    if (stack === "cross") this.modes.append(button("▶", () => this.play(), { title: "as it writes, token by token", "aria-label": "play, token by token" }));
    this.dials();
    this.heads();
    Object.assign(this.kept, { layer, head, lit: [head], mode: state.mode });
    swap(this.large, this.drawing());
    if (this.beside && this.follower?.view) this.follower.follow(this.chosen);
  }

  /** One head, large, all of it in sight, on the scale of what stands beside it. */
  drawing() {
    const { stack } = this.chosen, names = this.roles[stack]?.map((row) => row.map(roleName)) ?? [];
    this.kept.heat.beside = this.beside && panelOfStack(this.beside, stack);
    return panelOf({ ...this.panel, names, title: "", ...(this.beside ? { high: 1 } : {}) }, this.kept);
  }

  follow(chosen) {
    const [layers, heads] = this.sizes[chosen.stack] ?? [0, 0];
    if (chosen.layer >= layers || chosen.head >= heads) return;
    this.chosen = chosen;
    this.draw();
  }

  pick(stack, layer, head) {
    this.chosen = { stack, layer, head };
    choose({ head: headName(stack, layer, head) }, { quiet: true });
    this.draw();
  }

  turn(name, scale) {
    const dials = { ...state.dials };
    if (scale === 1) delete dials[name];
    else dials[name] = scale;
    choose({ dials });
    this.dials();
    this.marks();
  }

  range(name, label) {
    const input = make("input", { type: "range", min: 0, max: 2, step: 0.05, "aria-label": label, "data-head": name, title: "0: off, 1: as it is, 2: twice",
      oninput: () => { const value = Number(input.value); this.turn(name, Math.abs(value - 1) < 0.03 ? 1 : value); },
      ondblclick: () => { input.value = 1; this.turn(name, 1); } });
    input.value = state.dials[name] ?? 1;
    return input;
  }

  dials() {
    const { stack, layer, head } = this.chosen, name = headName(stack, layer, head), scale = state.dials[name] ?? 1;
    this.dial.replaceChildren(make("span", {}, `head ${layer}.${head} × ${scale.toFixed(2)}`),
      button(scale === 0 ? "switch on" : "switch off", () => { this.turn(name, scale === 0 ? 1 : 0); this.heads(); }));
  }

  /** Every head of the stack: a picture, its role, its dial. */
  heads() {
    const { stack } = this.chosen, [layers, heads] = this.sizes[stack], weights = this.weights[Object.keys(this.sizes).indexOf(stack)];
    const key = `${stack} ${layers} ${heads}`;
    if (this.drawn !== key) {
      this.drawn = key;
      this.cells = new Map();
      const cells = upTo(layers).flatMap((layer) => [make("span.layer", {}, layers > 1 ? `layer ${layer}` : ""), ...upTo(heads).map((head) => this.cell(stack, layer, head))]);
      this.grid.replaceChildren(...cells);
      this.grid.style.setProperty("--heads", heads);
      this.grid.classList.toggle("many", layers * heads > 24);
      this.arrows(heads);
    }
    for (const [name, cell] of this.cells) {
      const { layer, head } = headOf(name), role = this.roles[stack]?.[layer]?.[head];
      cell.role.textContent = roleName(role);
      const label = `layer ${layer}, head ${head}${role ? `, ${roleName(role)}` : ""}`;
      cell.thumb.setAttribute("aria-label", label);
      cell.thumb.title = label;
      thumbnail(cell.canvas, weights, layer, head, THUMB);
    }
    this.marks();
  }

  cell(stack, layer, head) {
    const name = headName(stack, layer, head), canvas = make("canvas", { "aria-hidden": "true" });
    const thumb = button(canvas, () => this.pick(stack, layer, head), { class: "thumb", "data-name": name });
    const power = button("", () => { this.turn(name, (state.dials[name] ?? 1) === 0 ? 1 : 0); }, { class: "power", role: "switch", "data-switch": name,
      "aria-label": `layer ${layer}, head ${head}: on or off` });
    const role = make("span.role"), range = this.range(name, `layer ${layer}, head ${head}: dial`);
    this.cells.set(name, { thumb, canvas, power, role, range });
    return make("div.head-cell", {}, thumb, power, range, role);
  }

  marks() {
    const { stack, layer, head } = this.chosen;
    for (const [name, { thumb, power, range }] of this.cells) {
      const scale = state.dials[name] ?? 1;
      thumb.setAttribute("aria-pressed", name === headName(stack, layer, head));
      power.setAttribute("aria-checked", scale !== 0);
      range.value = scale;
      range.setAttribute("aria-valuetext", `times ${scale}`);
      thumb.parentElement.classList.toggle("turned", scale !== 1);
      thumb.parentElement.style.setProperty("--strength", Math.min(1, 0.25 + 0.75 * scale));
    }
  }

  arrows(heads) {
    const thumbs = [...this.cells.values()].map((cell) => cell.thumb);
    thumbs.forEach((thumb, at) => thumb.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads }[event.key];
      if (!step || !thumbs[at + step]) return;
      event.preventDefault();
      thumbs[at + step].focus();
      thumbs[at + step].click();
    }));
  }

  /** Row after row, as a translator writes. */
  play() {
    clearInterval(this.timer);
    let row = -1;
    const last = this.panel.rows.length - 1;
    const step = () => {
      row += 1;
      const over = row > last || !this.element.isConnected;
      this.kept.heat.pin = over ? null : row;
      swap(this.large, this.drawing(), false);
      document.querySelectorAll("[data-written]").forEach((one) => {
        one.classList.toggle("lit", Number(one.dataset.written) === row);
        one.classList.toggle("later", !over && Number(one.dataset.written) > row);
      });
      if (over) clearInterval(this.timer);
    };
    choose({ mode: "heat" }, { quiet: true });
    this.kept.mode = "heat";
    step();
    this.timer = setInterval(step, PAUSE);
  }

  /** A token that is pointed at elsewhere: of what is read, or of what is written. */
  lit(at, written = false) {
    const { stack } = this.chosen ?? {}, detail = at === null ? null
      : stack === "cross" ? (written ? { row: at } : { column: at }) : (stack === "target") === written ? { row: at, column: at } : null;
    this.large.querySelector(".stage")?.dispatchEvent(new CustomEvent("light", { detail }));
  }
}

/** Another picture in the same place, drawn before the old one goes: nothing flickers while one types. */
export function swap(stand, element, smooth = true) {
  const old = [...stand.children];
  if (!old.length || !smooth) { stand.replaceChildren(element); return; }
  element.classList.add("coming");
  stand.append(element);
  paintNow();
  element.classList.remove("coming");
  for (const one of old) one.remove();
  forget();
}

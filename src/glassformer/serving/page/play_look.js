// A card with one view of the model at a time, under tabs; beside another run or prompt, both.
import { ask } from "/page/client.js";
import { button, make, panelOf, sharedScale } from "/page/viewer.js";
import { Attention, swap } from "/page/play_attention.js";
import { choose, state } from "/page/play_state.js";

// What each view is called here, and what to see in it.
const VIEWS = {
  attention: ["Attention", "Each picture is a head: rows look, columns are looked at. Turn one down: what changes?"],
  patches: ["Patches", "Choose a patch: the brighter another, the more this one looks at it."],
  "logit-lens": ["Layers", "What it would say if it stopped after each layer. Of a language model with a second prompt, a click puts that one's state there."],
  states: ["States", "What each layer holds after each token; of an LSTM or GRU also its gates."],
  attribution: ["Attribution", "Blue speaks for the answer, orange against it."],
  pooling: ["Pooling", "How much of each token goes into the one vector that is judged."],
  diagram: ["Model", "What it is built of. Click a brick for its numbers and its code."],
  tree: ["Tree", "Ways to go on, each token with its probability before anything is cut. Click one to grow the tree from it."],
  numbers: ["Numbers", "Every formula, number by number. Best with a short text."],
  positions: ["Positions", "How the model knows what stands where."],
};
const CODED = ["attention", "patches", "logit-lens", "attribution", "pooling", "states", "tree"];
const QUIET = ["diagram", "tree"]; // what they say of themselves is said above them

export const optionsOf = (name, facts) => (name === "tree" && facts.task === "language-model" ? { samples: 2, tokens: 6 } : {});

/** The views of a run, in our order. */
const offered = (facts) => Object.keys(VIEWS).filter((name) => name in facts.views);

export class Look {
  constructor(element, key, { light, grow, patch }) {
    Object.assign(this, { element, key, light, grow, patch, kept: {} });
    this.tabs = make("nav", { role: "tablist", "aria-label": "views" });
    this.hint = make("p.hint");
    this.coder = coder(() => this.view);
    this.stands = [0, 1].map((side) => make(`div.stand.side-${"ab"[side]}`, { role: "tabpanel" }));
    this.beside = new Attention({ light: () => {} });
    this.attention = new Attention({ light, follower: this.beside });
    element.replaceChildren(make("div.heading", {}, this.tabs, make("span.end", {}, this.coder)), this.hint, make("div.stands", {}, ...this.stands));
    element.addEventListener("pointerover", (event) => {
      const one = event.target.closest("[data-token]");
      if (one) this.light(Number(one.dataset.token), this.written());
    });
    element.addEventListener("pointerleave", () => this.light(null, false));
    element.addEventListener("token", ({ detail }) => { if (this.view === "states") this.light(detail?.column ?? null, false); });
    this.stands[0].addEventListener("click", (event) => this.clicked(event));
    element.addEventListener("grow", (event) => this.grow(event, this.stands.findIndex((stand) => stand.contains(event.target))));
  }

  /** Which view is open: the one chosen, or the first that this run has (and is not open elsewhere). */
  open(facts, taken = null) {
    const names = offered(facts);
    this.facts = facts;
    this.view = names.includes(state[this.key]) ? state[this.key] : names.find((name) => name !== taken) ?? null;
    const go = (name) => choose({ [this.key]: name });
    const tabs = names.map((name, at) => button(VIEWS[name][0], () => go(name), { role: "tab", "aria-selected": name === this.view, tabindex: name === this.view ? 0 : -1,
      "data-view": name, onkeydown: (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        const to = names[(at + step + names.length) % names.length];
        go(to);
        this.tabs.querySelector(`[data-view="${to}"]`).focus();
      } }));
    this.tabs.replaceChildren(...tabs);
    this.hint.textContent = this.view ? VIEWS[this.view][1] : "";
    this.coder.hidden = !CODED.includes(this.view);
    this.element.hidden = !names.length;
    return this.view;
  }

  show(answers) {
    const two = Boolean(answers[1]?.views[this.view]);
    this.stands[1].hidden = !two;
    this.element.classList.toggle("two", two);
    const [mine, theirs] = answers.map((answer) => answer?.views[this.view]);
    answers.forEach((answer, side) => {
      const view = answer?.views[this.view];
      if (!view) return;
      const stand = this.stands[side], other = two ? answers[1 - side] : null;
      stand.dataset.of = `${"AB"[side]}${other && other.facts.run !== answer.facts.run ? ` ${answer.facts.run}` : ""}`;
      if (this.view === "attention") {
        const attention = side ? this.beside : this.attention;
        if (stand.firstChild !== attention.element) stand.replaceChildren(attention.element);
        attention.show({ view, sizes: answer.facts.heads, roles: answer.roles, leader: side ? this.attention.chosen : null,
          beside: other && { view: other.views.attention, sizes: other.facts.heads } });
      } else {
        const kept = (this.kept[`${this.view} ${side}`] ??= []);
        if (this.view === "tree") kept.length = 0; // what was grown belongs to a text
        const scale = (at) => (two ? sharedScale(mine.panels[at], theirs.panels[at]) : {});
        const panels = view.panels.map((panel, at) => panelOf({ ...panel, ...scale(at) }, (kept[at] ??= {})));
        const note = view.panels.length && QUIET.includes(this.view) ? "" : view.note && make("p.small.note", {}, view.note);
        const all = make(`div.views.of-${this.view}`, {}, note, ...panels);
        swap(stand, all, stand.dataset.view === this.view);
      }
      stand.dataset.view = this.view;
    });
    if (two && this.view === "logit-lens") this.compare();
    this.patched();
  }

  /** Cells of B that say something else than those of A are marked. */
  compare() {
    const cells = this.stands.map((stand) => [...stand.lastChild.querySelectorAll("td[data-layer]")]);
    if (cells[0].length === cells[1].length) cells[1].forEach((cell, at) => cell.classList.toggle("differs", cell.textContent !== cells[0][at].textContent));
  }

  /** Whether its tokens are those that a translator writes. */
  written() {
    return this.view === "logit-lens" && this.facts?.task === "translation";
  }

  patched() {
    this.stands[0].querySelectorAll("td.patched").forEach((one) => one.classList.remove("patched"));
    if (this.view !== "logit-lens" || !state.patch) return;
    const { layer, position } = state.patch;
    for (const cell of this.stands[0].querySelectorAll(`td[data-token="${position}"]`))
      if (layerOf(cell) === layer) cell.classList.add("patched");
  }

  clicked(event) {
    const cell = event.target.closest("td[data-layer]");
    if (this.view !== "logit-lens" || !cell) return;
    const layer = layerOf(cell);
    if (layer !== null) this.patch({ layer, position: Number(cell.dataset.token) });
  }

  /** What is pointed at elsewhere, in every panel. */
  lit(at, written) {
    if (this.view === "attention") this.attention.lit(at, written);
    if (this.view === "states" && !written)
      this.stands[0].querySelectorAll(".stage").forEach((one) => one.dispatchEvent(new CustomEvent("light", { detail: at === null ? null : { column: at } })));
    this.stands[0].querySelectorAll(".lit").forEach((one) => one.classList.remove("lit"));
    if (at !== null && written === this.written()) this.stands[0].querySelectorAll(`[data-token="${at}"]`).forEach((one) => one.classList.add("lit"));
  }
}

/** How many layers lie behind a row of the lens: none at the input; null: what comes after the last. */
function layerOf(cell) {
  const name = cell.parentElement.querySelector("th").textContent;
  if (name === "input") return 0;
  const match = /^layer (\d+)$/.exec(name);
  return match ? Number(match[1]) + 1 : null;
}

/** A button for the code of the view that is open. */
export function coder(viewOf, title) {
  return button("code", () => showCode(viewOf(), title), { class: "coder", title: "the lines that compute this" });
}

async function showCode(view, title = VIEWS[view][0]) {
  const dialog = document.querySelector("#code");
  const { code } = await ask(`/api/play/code?panel=${encodeURIComponent(view)}`);
  dialog.replaceChildren(make("div.heading", {}, make("h2", {}, `${title}: the code`), button("close", () => dialog.close())), make("pre", {}, code));
  dialog.showModal();
}

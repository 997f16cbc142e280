// What the model says: the next token from its scores to what is drawn, classes, a number, a translation; before → after.
import { button, clamp, make, said, share, tools, visible } from "/page/viewer.js";
import { coder } from "/page/play_look.js";
import { choose, state } from "/page/play_state.js";

const DEEPEST = -12; // the end of the scale of tempered scores
const WHAT = {
  next: "The next token", fill: "What is hidden", classes: "What it says", labels: "What it says", number: "What it says",
  translation: "What it writes", nothing: "No prediction",
};

/** `append(text)`: a token was chosen; `reset()`: undo what was changed. */
export class Prediction {
  constructor(element, { append, reset }) {
    Object.assign(this, { element, append, reset, ends: { low: 0, high: 0 } });
    this.title = make("h2");
    this.changed = make("p.changed");
    this.body = make("div.said");
    this.fills = [];
    this.sampling = make("div.sampling", { hidden: true }, ...this.samplingSliders());
    this.search = make("div.sampling", { hidden: true }, this.beamSlider());
    this.tools = make("div.prediction-tools");
    this.coder = coder(() => "prediction", "The next token");
    element.replaceChildren(make("div.heading", {}, this.title, this.changed, make("span.end", {}, this.coder, this.tools)), this.body, this.sampling, this.search);
  }

  /** A slider over one number of the state. */
  slider(name, label, { min, max, step, title, read = (one) => one, write = (one) => one, words }) {
    const shownValue = make("output"), input = make("input", { type: "range", min, max, step, "aria-label": label,
      oninput: () => { choose({ [name]: write(Number(input.value)) }); fill(); } });
    const fill = () => {
      input.value = read(state[name]);
      shownValue.textContent = words(state[name]);
      input.setAttribute("aria-valuetext", shownValue.textContent);
    };
    this.fills.push(fill);
    return make("label", { title }, make("span", {}, label), input, shownValue);
  }

  /** The beam width of a translator. */
  beamSlider() {
    return this.slider("beam", "beam width", { min: 1, max: 16, step: 1, title: "hypotheses kept by beam search",
      words: (one) => (one === 1 ? "1: greedy" : String(one)) });
  }

  samplingSliders() {
    return [
      this.slider("temperature", "temperature", { min: 0, max: 2, step: 0.05, title: "divides the scores: lower is less random",
        words: (one) => (one === 0 ? "0: greedy" : one.toFixed(2)) }),
      this.slider("topK", "top-k", { min: 1, max: 51, step: 1, title: "keep only the k likeliest tokens",
        read: (one) => one ?? 51, write: (one) => (one > 50 ? null : one), words: (one) => (one === null ? "all" : String(one)) }),
      this.slider("topP", "top-p", { min: 0.05, max: 1, step: 0.05, title: "keep the likeliest tokens that together reach p",
        read: (one) => one ?? 1, write: (one) => (one >= 1 ? null : Number(one.toFixed(2))), words: (one) => (one === null ? "1" : one.toFixed(2)) }),
    ];
  }

  /** `now` beside what was `before` a change, and what the other side says. */
  show({ now, before, other, changes }) {
    this.title.textContent = WHAT[now.kind];
    this.sampling.hidden = this.coder.hidden = !["next", "fill"].includes(now.kind);
    this.search.hidden = now.kind !== "translation";
    this.tools.replaceChildren(tools({ kind: "prediction", title: WHAT[now.kind], before, now, other }, this.element));
    this.fills.forEach((fill) => fill());
    this.changed.replaceChildren(...(before ? [make("span", {}, changes), button("undo", this.reset)] : []));
    const beside = !before && other?.kind === now.kind ? other : null; // what was before a change is of the same side
    const draw = { next: this.tokens, fill: this.tokens, translation: this.written, number: this.number }[now.kind] ?? this.classes;
    this.body.replaceChildren(...draw.call(this, now, before, beside));
    return spoken(now);
  }

  /** A token of what is written that is pointed at elsewhere. */
  lit(at) {
    this.body.querySelectorAll("[data-written]").forEach((one) => one.classList.toggle("lit", at !== null && Number(one.dataset.written) === at));
  }

  tokens(now, before, beside) {
    if (!now.groups.length) return [make("p.small", {}, "Write <mask> where a token is to be guessed.")];
    if (beside) return now.groups.map((group, at) => this.pairs(group.rows, beside.groups[at]?.rows ?? [], { title: now.groups.length > 1 ? group.title : "token", most: group.rows.length }));
    for (const { score } of now.groups.flatMap((group) => group.rows)) {
      // the scale grows and never shrinks: bars can be compared from key to key
      this.ends.low = Math.min(this.ends.low, 5 * Math.floor(score / 5));
      this.ends.high = Math.max(this.ends.high, 5 * Math.ceil(score / 5));
    }
    return [...legend(before), ...now.groups.map((group, at) => {
      const old = new Map((before?.groups[at]?.rows ?? []).map((row) => [row.id, row]));
      const head = make("div.token-row.head", { "aria-hidden": "true" }, make("span", {}, now.groups.length > 1 ? group.title : "token"), make("span", {}, "score"),
        make("span", { title: "the score less the highest, divided by the temperature" }, state.temperature ? `−max ÷${state.temperature}` : "greedy"),
        make("span", {}, state.topK || state.topP ? "cut → probability" : "probability"));
      return make("div.token-rows", {}, head, ...group.rows.map((row) => this.row(row, old.get(row.id))));
    })];
  }

  row(row, old) {
    const { low, high } = this.ends, zero = clamp(0, -low / (high - low || 1), 1);
    const at = clamp(0, (row.score - low) / (high - low || 1), 1), deep = row.tempered === null ? 0 : clamp(0, 1 - row.tempered / DEEPEST, 1);
    const moved = old && Math.abs(old.drawn - row.drawn) >= 0.005, words = row.cut || share(row.drawn);
    const label = `${visible(row.name)}, probability ${share(row.drawn)}${row.cut ? `, ${row.cut}` : ""}${moved ? `, before ${share(old.drawn)}` : ""}`;
    return this.choice(row, label, row.cut ? ".cut" : "",
      make("span.track", { title: said(row.score) }, make("i", { "--from": Math.min(zero, at), "--to": Math.max(zero, at) }), make("em", {}, minus(row.score))),
      make("span.track", { title: said(row.tempered) }, make("i", { "--from": 0, "--to": deep }), make("em", {}, row.tempered === null ? "" : minus(row.tempered))),
      make("span.track.chance", {}, bar("now", row.drawn), old ? bar("before", old.drawn) : "", make("em", {}, moved ? `${share(old.drawn)} → ${words}` : words)));
  }

  /** A token that a click appends. */
  choice(row, label, style, ...parts) {
    const end = row.text === null || row.text === undefined;
    return make(`button.token-row${style}`, { type: "button", "aria-label": label, "data-id": row.id, onclick: () => { if (!end) this.append(row.text); },
      title: end ? `id ${row.id}` : `id ${row.id}: click to append` }, make("bdi", {}, visible(row.name)), ...parts);
  }

  classes(now, before, beside) {
    const rows = now.groups[0]?.rows ?? [], style = (row) => (now.said?.includes(row.name) ? ".chosen" : "");
    if (beside) return [this.pairs(rows, beside.groups[0].rows, { title: "class", style })];
    return [...legend(before), make("div.classes", {}, ...rows.map((row) => {
      const old = before?.groups[0].rows.find((one) => one.name === row.name), words = digits(row.probability);
      const moved = old && Math.abs(old.probability - row.probability) >= 0.0005;
      return make(`div.class${style(row)}`, {}, make("bdi", {}, row.name), make("span.track", {}, bar("now", row.probability), old ? bar("before", old.probability) : ""),
        make("em", {}, moved ? `${digits(old.probability)} → ${words}` : words));
    }))];
  }

  /** The probabilities of A and B in two columns of one scale, and what B has more or less; `most`: only so many, the likeliest of either. */
  pairs(mine, theirs, { title, style = () => "", most = null }) {
    const sides = [mine, theirs].map((rows) => new Map(rows.map((row) => [row.name, row]))), of = (row) => row && (row.drawn ?? row.probability);
    let names = [...new Set([...mine, ...theirs].map((row) => row.name))];
    const likelier = (name) => Math.max(...sides.map((side) => of(side.get(name)) ?? 0));
    if (most) names = names.sort((a, b) => likelier(b) - likelier(a)).slice(0, most);
    const line = (name) => {
      const [a, b] = sides.map((side) => of(side.get(name))), row = sides[0].get(name) ?? { ...sides[1].get(name), text: null };
      const words = [a, b].map((one) => (one === undefined ? "–" : share(one))), more = b - a, far = Math.abs(more) >= 0.005;
      const parts = [["now", a], ["other", b]].map(([side, part], at) => make("span.track.chance", {}, part === undefined ? "" : bar(side, part), make("em", {}, words[at])));
      parts.push(make(`em.difference${!far ? "" : more > 0 ? ".more" : ".less"}`, {}, Number.isNaN(more) ? "" : `${more < 0 ? "−" : "+"}${Math.abs(more).toFixed(3)}`));
      const label = `${visible(name)}, probability ${words[0]}, B ${words[1]}`;
      return row.id === undefined ? make(`div.token-row${style(row)}`, { "aria-label": label }, make("bdi", {}, name), ...parts) : this.choice(row, label, "", ...parts);
    };
    return make("div.token-rows.pairs", {}, make("div.token-row.head", { "aria-hidden": "true" }, ...[title, "A", "B", "B − A"].map((one) => make("span", {}, one))), ...names.map(line));
  }

  number(now, before, beside) {
    if (beside) return [make("p.number-said", {}, make("span.now", {}, "A ", said(now.value)), make("span.other", {}, "B ", said(beside.value)))];
    return [make("p.number-said", {}, before ? make("span.old", {}, `${said(before.value)} → `) : "", said(now.value))];
  }

  written(now, before, beside) {
    const old = before && before.text !== now.text ? [make("p.written.old", {}, "before: ", make("bdi", {}, before.text))] : [];
    const sides = beside ? [["A", now, beside], ["B", beside, now]] : [["", now, null]];
    return [...sides.flatMap(([name, one, other], side) => [
      make(`p.written.${side ? "other" : "now"}`, {}, make("bdi", {}, one.text)), ...(side ? [] : old), letters(one.groups[0].rows, other?.groups[0].rows, name)]),
    make("p.small", {}, "A bar: how sure it was of each token as it wrote.")];
  }
}

/** What is written token by token; `others`: what stands beside it, where it differs. */
function letters(rows, others, name) {
  return make("div.letters", { role: "list", "aria-label": `${name} token by token`.trim() }, ...rows.map((row, at) => {
    const words = `${visible(row.name)}: ${share(row.probability)}`;
    return make(`span.letter${others && others[at]?.name !== row.name ? ".differs" : ""}`, { role: "listitem", ...(name === "B" ? {} : { "data-written": at }),
      "--share": row.probability, title: words, "aria-label": words }, make("bdi", {}, visible(row.name)), make("i"));
  }));
}

const digits = (probability) => (probability > 0 && probability < 0.0005 ? "<0.001" : probability.toFixed(3));
const bar = (side, part) => make(`i.${side}`, { "--from": 0, "--to": part });
const legend = (before) => (before ? [make("p.legend", {}, make("span.now", {}, "after"), make("span.before", {}, "before"))] : []);

function minus(number) {
  return number.toFixed(1).replace("-", "−").replace("−0.0", "0.0");
}

function spoken(now) {
  if (now.kind === "number") return `It says ${said(now.value)}`;
  if (now.kind === "translation") return `It writes ${now.text}`;
  const rows = now.groups[0]?.rows ?? [], name = (row) => `${visible(row.name)} ${share(row.drawn ?? row.probability)}`;
  if (!rows.length) return "";
  return `${WHAT[now.kind]}: ${[...rows].sort((a, b) => (b.drawn ?? b.probability) - (a.drawn ?? a.probability)).slice(0, 3).map(name).join(", ")}`;
}

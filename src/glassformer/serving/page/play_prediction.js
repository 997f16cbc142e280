// What the model says: the next token from its scores to what is drawn, classes, a number, a translation; before → after.
import { button, clamp, make, said, share, shown, tools } from "/page/viewer.js";
import { showCode } from "/page/play_look.js";
import { choose, state } from "/page/play_state.js";

const DEEPEST = -12; // the end of the scale of tempered scores
const WHAT = {
  next: "The next token", fill: "What is hidden", classes: "What it says", labels: "What it says", number: "What it says",
  translation: "What it writes", nothing: "No prediction",
};

/** `append(text)`: a token was chosen; `stop()`: undo what was changed. */
export class Prediction {
  constructor(element, { append, reset }) {
    Object.assign(this, { element, append, reset, ends: { low: 0, high: 0 } });
    this.title = make("h2");
    this.changed = make("p.changed");
    this.body = make("div.said");
    this.controls = make("div.sampling", { hidden: true }, ...this.sliders());
    this.tools = make("div.prediction-tools");
    const coder = button("code", () => showCode("prediction", "The next token"), { class: "coder", title: "the lines that compute this" });
    this.coder = coder;
    element.replaceChildren(make("div.heading", {}, this.title, this.changed, make("span.end", {}, coder, this.tools)), this.body, this.controls);
  }

  sliders() {
    const slider = (name, label, { min, max, step, value, read, write, words }) => {
      const shownValue = make("output"), input = make("input", { type: "range", min, max, step, "aria-label": label,
        oninput: () => { choose({ [name]: write(Number(input.value)) }); fill(); } });
      const fill = () => {
        input.value = read(state[name]);
        shownValue.textContent = words(state[name]);
        input.setAttribute("aria-valuetext", shownValue.textContent);
      };
      (this.fills ??= []).push(fill);
      return make("label", { title: value }, make("span", {}, label), input, shownValue);
    };
    return [
      slider("temperature", "temperature", { min: 0, max: 2, step: 0.05, value: "scores are divided by it: low is sure, high is wild",
        read: (one) => one, write: (one) => one, words: (one) => (one === 0 ? "0: greedy" : one.toFixed(2)) }),
      slider("topK", "top-k", { min: 1, max: 51, step: 1, value: "only the k likeliest stay",
        read: (one) => one ?? 51, write: (one) => (one > 50 ? null : one), words: (one) => (one === null ? "all" : String(one)) }),
      slider("topP", "top-p", { min: 0.05, max: 1, step: 0.05, value: "the likeliest stay that together reach p",
        read: (one) => one ?? 1, write: (one) => (one >= 1 ? null : Number(one.toFixed(2))), words: (one) => (one === null ? "1" : one.toFixed(2)) }),
    ];
  }

  /** `now` beside what was `before` a change, and what the other side says. */
  show({ now, before, other, changes }) {
    this.title.textContent = WHAT[now.kind];
    this.controls.hidden = this.coder.hidden = !["next", "fill"].includes(now.kind);
    this.tools.replaceChildren(tools({ kind: "prediction", title: WHAT[now.kind], before, now, other }, this.element));
    this.fills.forEach((fill) => fill());
    this.changed.replaceChildren(...(before ? [make("span", {}, changes), button("undo", this.reset)] : []));
    const beside = before ?? other, mark = before ? "before" : "other";
    this.element.classList.toggle("compared", Boolean(beside));
    const draw = { next: this.tokens, fill: this.tokens, translation: this.written, number: this.number }[now.kind] ?? this.classes;
    this.body.replaceChildren(...draw.call(this, now, beside?.kind === now.kind ? beside : null, mark));
    return spoken(now);
  }

  /** A token of what is written that is pointed at elsewhere. */
  lit(at) {
    this.body.querySelectorAll("[data-written]").forEach((one) => one.classList.toggle("lit", at !== null && Number(one.dataset.written) === at));
  }

  legend(beside, mark) {
    if (!beside) return [];
    const [first, second] = mark === "before" ? ["after", "before"] : ["A", "B"];
    return [make("p.legend", {}, make("span.now", {}, first), make(`span.${mark}`, {}, second))];
  }

  tokens(now, beside, mark) {
    if (!now.groups.length) return [make("p.small", {}, "Write <mask> where a token is to be guessed.")];
    for (const { score } of now.groups.flatMap((group) => group.rows)) {
      // the scale grows and never shrinks: bars can be compared from key to key
      this.ends.low = Math.min(this.ends.low, 5 * Math.floor(score / 5));
      this.ends.high = Math.max(this.ends.high, 5 * Math.ceil(score / 5));
    }
    const several = now.groups.length > 1;
    return [...this.legend(beside, mark), ...now.groups.map((group, at) => {
      const others = new Map((beside?.groups[at]?.rows ?? []).map((row) => [mark === "before" ? row.id : row.name, row]));
      const head = make("div.token-row.head", { "aria-hidden": "true" }, make("span", {}, several ? group.title : "token"), make("span", {}, "score"),
        make("span", { title: "the score less the highest, divided by the temperature" }, state.temperature ? `(s − max) ÷ ${state.temperature}` : "greedy"),
        make("span", {}, state.topK || state.topP ? "cut → probability" : "probability"));
      const rows = group.rows.map((row) => this.row(row, beside && (others.get(mark === "before" ? row.id : row.name) ?? { drawn: null }), mark));
      return make("div.token-rows", {}, head, ...rows);
    })];
  }

  row(row, other, mark) {
    const { low, high } = this.ends, zero = clamp(0, -low / (high - low || 1), 1);
    const at = clamp(0, (row.score - low) / (high - low || 1), 1), deep = row.tempered === null ? 0 : clamp(0, 1 - row.tempered / DEEPEST, 1);
    const chance = row.cut ? row.cut : share(row.drawn);
    const moved = other && other.drawn !== null && Math.abs(other.drawn - row.drawn) >= 0.005;
    const words = moved ? both(chance, share(other.drawn), mark) : chance;
    const end = row.text === null || row.text === undefined;
    const label = `${shown(row.name)}, probability ${share(row.drawn)}${row.cut ? `, ${row.cut}` : ""}${moved ? `, ${mark} ${share(other.drawn)}` : ""}`;
    return make(`button.token-row${row.cut ? ".cut" : ""}`, { type: "button", "aria-label": label, "data-id": row.id,
      onclick: () => { if (!end) this.append(row.text); }, title: end ? `id ${row.id}` : `id ${row.id}: click to append` },
      make("bdi", {}, shown(row.name)),
      make("span.track", { title: said(row.score) }, make("i", { "--from": Math.min(zero, at), "--to": Math.max(zero, at) }), make("em", {}, minus(row.score))),
      make("span.track", { title: said(row.tempered) }, make("i", { "--from": 0, "--to": deep }), make("em", {}, row.tempered === null ? "" : minus(row.tempered))),
      make("span.track.chance", {}, make("i.now", { "--from": 0, "--to": row.drawn }),
        other && other.drawn !== null ? make(`i.${mark}`, { "--from": 0, "--to": other.drawn }) : "", make("em", {}, words)));
  }

  classes(now, beside, mark) {
    const rows = now.groups[0]?.rows ?? [];
    return [...this.legend(beside, mark), make("div.classes", {}, ...rows.map((row) => {
      const other = beside?.groups[0].rows.find((one) => one.name === row.name);
      const moved = other && Math.abs(other.probability - row.probability) >= 0.0005;
      return make(`div.class${now.said?.includes(row.name) ? ".chosen" : ""}`, {}, make("bdi", {}, row.name),
        make("span.track", {}, make("i.now", { "--from": 0, "--to": row.probability }),
          other ? make(`i.${mark}`, { "--from": 0, "--to": other.probability }) : ""),
        make("em", {}, moved ? both(row.probability.toFixed(3), other.probability.toFixed(3), mark) : row.probability.toFixed(3)));
    }))];
  }

  number(now, beside, mark) {
    const old = beside ? [make("span.old", {}, mark === "before" ? `${said(beside.value)} → ` : `B ${said(beside.value)}, A `)] : [];
    return [make("p.number-said", {}, ...old, said(now.value))];
  }

  written(now, beside, mark) {
    const rows = now.groups[0].rows, other = beside && beside.text !== now.text ? beside.text : null;
    return [
      make("p.written", {}, make("bdi", {}, now.text)),
      other === null ? "" : make("p.written.old", {}, make("span", {}, mark === "before" ? "before: " : "B: "), make("bdi", {}, other)),
      make("div.letters", { role: "list", "aria-label": "token by token" }, ...rows.map((row, at) => make("span.letter", { role: "listitem", "data-written": at,
        "--share": row.probability, title: `${shown(row.name)}: ${share(row.probability)}`, "aria-label": `${shown(row.name)}, ${share(row.probability)}` },
      make("bdi", {}, shown(row.name)), make("i")))),
      make("p.small", {}, "A bar: how sure it was of each token as it wrote."),
    ].filter(Boolean);
  }
}


function both(now, other, mark) {
  return mark === "before" ? `${other} → ${now}` : `${now}, B ${other}`;
}

function minus(number) {
  return number.toFixed(1).replace("-", "−").replace("−0.0", "0.0");
}

function spoken(now) {
  if (now.kind === "number") return `It says ${said(now.value)}`;
  if (now.kind === "translation") return `It writes ${now.text}`;
  const rows = now.groups[0]?.rows ?? [], name = (row) => `${shown(row.name)} ${share(row.drawn ?? row.probability)}`;
  if (!rows.length) return "";
  return `${WHAT[now.kind]}: ${[...rows].sort((a, b) => (b.drawn ?? b.probability) - (a.drawn ?? a.probability)).slice(0, 3).map(name).join(", ")}`;
}

// The playground: what is typed, turned or moved is asked at once, and every panel shows the newest answer.
import { ask } from "/page/client.js";
import { button, dark, make, mixColours, repaint } from "/page/viewer.js";
import { begin, choose, headOf, state } from "/page/play_state.js";
import { Look, optionsOf } from "/page/play_look.js";
import { Prediction } from "/page/play_prediction.js";
import { Prompt, differing, presetsOf } from "/page/play_prompt.js";
import { Time } from "/page/play_time.js";

const PATIENCE = 250; // milliseconds after which a newer question no longer waits for the answer to an older one
const find = (name) => document.querySelector(name);
const known = new Map(); // run → what is told of it once
const wide = matchMedia("(min-width: 1640px) and (min-height: 700px)");

mixColours();
dark.addEventListener("change", repaint);
wide.addEventListener("change", () => renew());

// --- the parts ---

const example = (text, facts) => (facts.reads === "row" ? rowOf(text) : text ?? "");
const rowOf = (text) => { try { return JSON.parse(text || "{}"); } catch { return {}; } }; // the text of another run is no row
const asText = (given) => (typeof given === "string" ? given : JSON.stringify(given));
// A token that one points at is lit in every panel but the one that says so, which has its own way.
const light = (at, written = false, from = null) => {
  looks.forEach((look) => { if (look !== from) look.lit(at, written); });
  prompts[0].lit(written ? null : at);
  prediction.lit(written ? at : null);
};
const ALONE = { other: null, second: null, patch: null };
const closeOther = button("✕", () => choose(ALONE), { title: "close the second prompt", "aria-label": "close the second prompt" });
const otherRun = make("select", { "aria-label": "second run", onchange: () => choose({ second: otherRun.value || null, patch: null }) });
const missing = make("p.remark", { role: "status" }); // a link named a run that is not served
const presets = make("div.presets", { role: "group", "aria-label": "examples" });
const prompts = [
  new Prompt({ label: "prompt", light, beside: presets, given: (given) => choose({ text: asText(given) }) }),
  new Prompt({ label: "second prompt", light: () => {}, given: (given) => choose({ other: asText(given) }), closing: make("div.closing", {}, otherRun, closeOther) }),
];
find("#prompt").replaceChildren(missing, prompts[0].element, prompts[1].element);
const prediction = new Prediction(find("#prediction"), {
  append: (text) => { choose({ text }); prompts[0].put(text); },
  reset: () => choose({ dials: {}, patch: null }),
});
const looks = ["first", "beside"].map((name, at) => new Look(find(`#${name}`), at ? "beside" : "show",
  { light: (place, written) => light(place, written, looks[at]), grow, patch }));
const time = new Time(find("#time"));

const ANEW = { text: null, other: null, dials: {}, patch: null, update: null, head: null }; // what belongs to a run
const runs = make("select", { "aria-label": "run", onchange: () => { missing.textContent = ""; choose({ run: runs.value, ...ANEW }); } });
const comparer = button("compare", () => choose(comparing() ? ALONE : { other: state.text }), { title: "a second prompt or run beside it" });
const linker = button("copy link", async () => {
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  linker.textContent = "copied";
  setTimeout(() => { linker.textContent = "copy link"; }, 1500);
});
find("#runs").append(runs);
find("#doing").append(comparer, linker);
const comparing = () => state.other !== null || state.second !== null;

// --- asking ---

let asked = 0, shown = 0, flight = null, waiting = null;

/** Ask for what there is to see now: at once, or when the answer before is there, or has taken too long. */
function renew() {
  clearTimeout(waiting);
  const patience = flight ? flight.began + PATIENCE - performance.now() : 0;
  waiting = patience > 0 ? setTimeout(renew, patience) : null;
  if (waiting) return;
  flight?.stop.abort();
  question();
}

async function question() {
  const number = (asked += 1), stop = new AbortController(), mine = { began: performance.now(), stop };
  flight = mine;
  document.body.classList.add("asking");
  try {
    const facts = await factsOf(state.run), second = comparing() ? await factsOf(state.second ?? state.run) : null;
    const first = looks[0].open(facts), beside = wide.matches ? looks[1].open(facts, first) : null;
    const views = [...new Set([first, beside].filter(Boolean))];
    const sides = [bodyOf(facts, state.text, views, true)];
    if (second) sides.push(bodyOf(second, state.other ?? state.text, views.filter((name) => name in second.views), false));
    const answers = await Promise.all(sides.map((body, side) => answered(body, side, stop.signal)));
    if (number < shown) return;
    shown = number;
    show(answers.map((answer, side) => answer && { ...answer, facts: side ? second : facts }), facts);
  } catch (error) {
    if (error.name !== "AbortError" && number >= shown) prompts[0].say([error.message]);
  } finally {
    if (flight === mine) {
      flight = null;
      document.body.classList.remove("asking");
      if (waiting) renew();
    }
  }
}

/** An answer, or null where there is nothing to read, or it is refused: the prompt says why. */
async function answered(body, side, signal) {
  if (body.example === "" || body.example === null) return null;
  try {
    return await ask("/api/play", body, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    prompts[side].say([error.message]);
    return null;
  }
}

function bodyOf(facts, text, views, own) {
  const body = { run: facts.run, example: example(text, facts), views,
    options: Object.fromEntries(views.map((name) => [name, optionsOf(name, facts)])),
    temperature: state.temperature, top_k: state.topK, top_p: state.topP, beam: state.beam };
  if (state.update !== null && facts.updates.includes(state.update)) body.update = state.update;
  if (own) body.changes = Object.entries(state.dials).map(([name, scale]) => ({ ...headOf(name), scale })).filter((one) => facts.heads[one.stack]);
  if (own && state.patch && state.other) Object.assign(body, { patch: state.patch, other: example(state.other, facts) });
  return body;
}

async function factsOf(run) {
  const key = run ?? "";
  if (!known.has(key)) known.set(key, ask(`/api/play${run ? `?run=${encodeURIComponent(run)}` : ""}`).catch((error) => { known.delete(key); throw error; }));
  return known.get(key);
}

// --- showing ---

function show(answers, facts) {
  const [mine, theirs] = answers;
  document.body.classList.toggle("empty", !mine);
  if (!mine) {
    if (facts.reads !== "text" || !state.text) prompts[0].show([]);
    return;
  }
  prompts[0].show(mine.tokens, theirs ? differing(mine.tokens, theirs.tokens) : new Set());
  if (theirs) prompts[1].show(theirs.tokens, differing(theirs.tokens, mine.tokens));
  answers.forEach((answer, side) => { if (answer) prompts[side].say(answer.remarks); });
  const spoken = prediction.show({ now: mine.prediction, before: mine.before, other: theirs?.prediction ?? null, changes: changesInWords() });
  find("#heard").textContent = spoken;
  looks[0].show(answers);
  if (wide.matches) looks[1].show(answers);
  document.body.dataset.answer = String(shown);
}

function changesInWords() {
  const dials = Object.entries(state.dials), parts = [];
  if (dials.length === 1) parts.push(`head ${dials[0][0].replace("self:", "")} × ${dials[0][1]}`);
  else if (dials.length) parts.push(`${dials.length} heads turned`);
  if (state.patch) parts.push(`state of B after ${state.patch.layer ? `layer ${state.patch.layer - 1}` : "the input"}, token ${state.patch.position}`);
  return parts.join(", ");
}

/** Everything that stands around the answers. */
async function furnish(what) {
  await checkRuns();
  const facts = await factsOf(state.run).catch((error) => { prompts[0].say([error.message]); return null; });
  if (!facts) return;
  if (state.text === null) choose({ text: asText(facts.presets[0]?.example ?? "") }, { step: false, quiet: true });
  if (state.update !== null && !facts.updates.includes(state.update)) choose({ update: null }, { step: false, quiet: true });
  runs.replaceChildren(...facts.runs.map((name) => make("option", { value: name }, name)));
  runs.value = facts.run;
  find("#facts").textContent = `${facts.model}, ${facts.parameters.toLocaleString("en")} parameters${facts.data ? `, ${facts.data}` : ""}`;
  document.title = `${facts.run}: playground`;
  const two = comparing();
  const second = two ? await factsOf(state.second ?? state.run).catch((error) => { prompts[0].say([error.message]); return facts; }) : facts;
  prompts.forEach((prompt, side) => prompt.reads(side ? second : facts));
  prompts[1].element.hidden = !two;
  comparer.setAttribute("aria-pressed", two);
  document.body.classList.toggle("asking-two", two);
  otherRun.replaceChildren(make("option", { value: "" }, "same run"), ...facts.runs.filter((name) => name !== facts.run).map((name) => make("option", { value: name }, name)));
  otherRun.value = state.second ?? "";
  otherRun.hidden = facts.runs.length < 2;
  if (what !== "typed") prompts[0].put(example(state.text, facts));
  if (two && document.activeElement !== prompts[1].field) prompts[1].put(example(state.other ?? state.text, second));
  if (presets.dataset.run !== facts.run) {
    presets.dataset.run = facts.run;
    presets.replaceChildren(...presetsOf(facts.presets, (given) => { choose({ text: asText(given) }); prompts[0].put(given); }));
    time.reads(facts);
  }
  time.show();
}

/** A run of a link that is not served gives way to the first that is. */
async function checkRuns() {
  for (const [name, instead] of [["run", { run: null, ...ANEW }], ["second", ALONE]]) {
    const run = state[name], facts = run && await factsOf(run).catch(() => factsOf(null)).catch(() => null);
    if (!facts || facts.runs.includes(run)) continue;
    missing.textContent = `${run} is not served: ${name === "run" ? `this is ${facts.runs[0]}` : "there is nothing to compare with"}`;
    choose(instead, { step: false, quiet: true });
  }
}

// --- by hand ---

async function grow(event, side) {
  const facts = await factsOf(side === 1 && state.second ? state.second : state.run), at = event.target;
  const { views, options, ...body } = bodyOf(facts, side === 1 ? state.other ?? state.text : state.text, [], side === 0);
  const grown = await ask("/api/play/grow", { ...body, path: event.detail.path }).catch((error) => { prompts[side].say([error.message]); return null; });
  if (!grown) return;
  const branches = grown.branches.map((one) => ({ id: one.id, token: one.name, probability: one.probability, why: one.cut }));
  at.dispatchEvent(new CustomEvent("grown", { detail: { path: grown.path, branches } }));
}

async function patch(place) {
  const facts = await factsOf(state.run), same = state.patch?.layer === place.layer && state.patch.position === place.position;
  if (!facts.patches) return;
  if (state.other === null) {
    choose({ other: state.text });
    prompts[1].say(["Change this second prompt: its state goes where you click."]);
    prompts[1].field?.focus();
    return;
  }
  choose({ patch: same ? null : place });
}

// --- beginning ---

begin(async (what) => {
  const typed = Array.isArray(what) && what.length === 1 && (what[0] === "text" || what[0] === "other");
  if (!typed) await furnish("all");
  renew();
  if (typed) await furnish("typed"); // while the model computes
});
await furnish("all");
renew();

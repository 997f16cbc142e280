// The training as a slider, its loss beneath: every panel shows the model as it was then.
import { button, make, svg } from "/page/viewer.js";
import { choose, state } from "/page/play_state.js";

const WIDE = 1000, HIGH = 60, PAUSE = 500;

export class Time {
  constructor(element) {
    this.element = element;
    this.moment = make("output");
    this.slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "update of the training", oninput: () => { this.stop(); this.go(Number(this.slider.value)); } });
    this.player = button("▶", () => (this.timer ? this.stop() : this.play()), { "aria-label": "play the training" });
    this.curve = make("div.curve", { "aria-hidden": "true" });
    element.replaceChildren(this.player, make("div.track-of-time", {}, this.curve, this.slider), this.moment);
  }

  reads(facts) {
    this.updates = facts.updates;
    this.losses = facts.curve;
    this.element.hidden = !facts.updates.length;
    if (this.element.hidden) return;
    this.slider.max = facts.updates.length - 1;
    const last = facts.updates.at(-1), losses = facts.curve.map(([, loss]) => loss), low = Math.min(...losses), high = Math.max(...losses);
    // the slider's places are moments, not updates: the curve is drawn over the same places
    const place = (update) => {
      const after = Math.max(1, this.updates.findIndex((one) => one >= update)), from = this.updates[after - 1], to = this.updates[after] ?? last;
      return ((after - 1 + (to > from ? (update - from) / (to - from) : 0)) / Math.max(1, this.updates.length - 1)) * WIDE;
    };
    const points = facts.curve.filter(([step]) => step <= last).map(([step, loss]) => `${place(step).toFixed(1)},${(4 + (HIGH - 8) * (1 - (loss - low) / (high - low || 1))).toFixed(1)}`);
    this.mark = svg("line", { class: "now", y1: 0, y2: HIGH });
    this.place = place;
    this.curve.replaceChildren(svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none" },
      svg("polyline", { points: points.join(" "), fill: "none" }), this.mark));
    this.show();
  }

  show() {
    if (this.element.hidden) return;
    const at = state.update === null ? this.updates.length - 1 : Math.max(0, this.updates.indexOf(state.update)), update = this.updates[at];
    this.slider.value = at;
    const loss = this.losses.reduce((best, one) => (Math.abs(one[0] - update) < Math.abs(best[0] - update) ? one : best), this.losses[0] ?? [0, NaN])[1];
    this.moment.textContent = `update ${update.toLocaleString("en")}${Number.isFinite(loss) ? `, loss ${loss.toPrecision(3)}` : ""}`;
    this.slider.setAttribute("aria-valuetext", this.moment.textContent);
    const x = this.place(update);
    this.mark.setAttribute("x1", x);
    this.mark.setAttribute("x2", x);
  }

  go(at) {
    const last = at >= this.updates.length - 1;
    choose({ update: last ? null : this.updates[at] });
    this.show();
  }

  play() {
    let at = Number(this.slider.value);
    if (at >= this.updates.length - 1) at = -1;
    this.player.textContent = "❚❚";
    const step = () => {
      at += 1;
      this.go(at);
      if (at >= this.updates.length - 1) this.stop();
    };
    this.timer = setInterval(step, PAUSE);
    step();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.player.textContent = "▶";
  }
}

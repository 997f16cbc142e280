// The head view: lines between tokens in two columns, one for every weight, a colour for every head.

const TOKEN = 25; // pixels from token to token
const TOP = 34; // pixels above the first
const LEAST = 0.02; // a weight below it has no line
const TOLD = 0.005; // a weight below it is not told

function linesBetween(panel, weights, kept, stand, { say, refill }) {
  const { rows, columns, heads } = weights, tokens = [panel.rows, panel.columns];
  const names = tokens.map((side) => side.map(shown));
  const line = reading("Point at a token to see only its lines; a click keeps them.");
  const state = (kept.lines ??= {}); // pin: the token whose lines are kept
  let over = null, edges = [0, 0]; // over: { side: 0 left or 1 right, at }
  const chosen = () => over ?? state.pin ?? null;
  const lit = () => kept.lit.map((head) => [head, weights.of(kept.layer, head)]);

  // The mean weight over the heads that are lit: between two tokens, and between one and all on the other side.
  const mean = (row, column) =>
    lit().reduce((sum, [, values]) => sum + values[row * columns + column], 0) / (kept.lit.length || 1);
  const beside = ({ side, at }) =>
    Float32Array.from(tokens[1 - side], (_, i) => (side === 0 ? mean(at, i) : mean(i, at)));
  const tell = () => {
    const one = chosen();
    if (!one) { line.textContent = ""; return; }
    const listed = mostOf(beside(one), tokens[1 - one.side], 6, TOLD);
    const several = kept.lit.length > 1 ? ` (mean of ${kept.lit.length} heads)` : "";
    const name = isolated(tokens[one.side][one.at]);
    line.textContent = `${name} ${one.side ? "is looked at by" : "looks at"} ${listed}${several}`;
  };
  const stage = new Stage({
    label: `Lines between ${count(rows, "token")} that look and ${count(columns, "token")} looked at. `
      + "Up and down move, left and right change sides, Enter keeps.",
    kept: state,
    measure: (width) => {
      const room = Math.min(width, 620), most = Math.min(180, width * 0.34);
      const [left, right] = names.map((side) => widest(side, 13.5, most));
      edges = [left + 54, room - right - 54];
      return [Math.floor(room), Math.ceil(Math.max(rows, columns) * TOKEN + TOP)];
    },
    paint: (pen) => paint(pen),
    point: (x, y) => move(token(x, y)),
    leave: () => move(null),
    press: (x, y) => pin(token(x, y)),
    key: (event) => key(event),
  });
  const height = (at) => TOP + (at + 0.5) * TOKEN - stage.top;
  const seen = (at) => height(at) > -TOKEN && height(at) < stage.height + TOKEN;

  function paint(pen) {
    const one = chosen(), [left, right] = edges, bend = (right - left) * 0.35;
    const wanted = (row, column) => !one || (one.side === 0 ? row : column) === one.at;
    for (const [head, values] of lit()) {
      pen.strokeStyle = hue(`--c${head % OWN_COLOURS}`);
      values.forEach((weight, i) => {
        if (weight < LEAST) return;
        const row = Math.floor(i / columns), column = i % columns;
        if (!wanted(row, column) || !(seen(row) || seen(column))) return;
        pen.globalAlpha = Math.min(1, 0.08 + 0.92 * weight) * (one || kept.lit.length < 3 ? 1 : 0.75);
        pen.lineWidth = 0.6 + 4.4 * weight;
        pen.beginPath();
        pen.moveTo(left, height(row));
        pen.bezierCurveTo(left + bend, height(row), right - bend, height(column), right, height(column));
        pen.stroke();
      });
    }
    pen.globalAlpha = 1;
    const found = one && beside(one);
    names.forEach((side, which) => side.forEach((name, at) => {
      if (seen(at)) write(pen, name, which, at, one, one && one.side !== which ? found[at] : null);
    }));
    pen.fillStyle = hue("--card");
    pen.fillRect(0, 0, stage.width, 26);
    pen.fillStyle = hue("--quiet");
    pen.font = font(11.5);
    pen.textAlign = "right";
    pen.fillText(panel.row_name || "looks", left - 10, 14);
    pen.textAlign = "left";
    pen.fillText(panel.column_name || "is looked at", right + 10, 14);
  }

  // weight: between the chosen token and this one; null where there is none chosen on the other side.
  function write(pen, name, side, at, one, weight) {
    const self = one?.side === side && one.at === at, y = height(at);
    const x = edges[side] + (side ? 8 : -8), room = side ? stage.width - edges[1] - 50 : edges[0] - 50;
    pen.font = font(13.5, self || weight >= 0.1);
    pen.textAlign = side ? "left" : "right";
    pen.fillStyle = hue(self ? "--accent" : weight !== null && weight < TOLD ? "--quiet" : "--ink");
    pen.fillText(cut(pen, name, room), x, y);
    if (weight < TOLD) return;
    pen.font = font(11.5);
    pen.fillStyle = hue("--quiet");
    pen.textAlign = side ? "right" : "left";
    pen.fillText(share(weight), side ? stage.width - 4 : 4, y);
  }

  function token(x, y) {
    const at = Math.floor((y + stage.top - TOP) / TOKEN), side = x <= edges[0] ? 0 : 1;
    return (side === 1 && x < edges[1]) || at < 0 || at >= names[side].length ? null : { side, at };
  }

  const draw = () => { stage.draw(); tell(); };
  const same = (a, b) => a?.side === b?.side && a?.at === b?.at;
  function move(to) {
    if (same(to, over)) return;
    over = to;
    draw();
    stage.element.dispatchEvent(new CustomEvent("token",
      { bubbles: true, detail: to && { [to.side ? "column" : "row"]: to.at } }));
  }

  stage.element.addEventListener("light", ({ detail }) => { // somebody points at a token elsewhere
    const at = detail?.row ?? detail?.column ?? null;
    over = at === null ? null : { side: detail.row === undefined ? 1 : 0, at };
    draw();
  });

  function pin(to) {
    state.pin = same(to, state.pin) ? null : to;
    over = to;
    draw();
  }

  function key(event) {
    const one = chosen(), steps = { ArrowUp: [-1], ArrowDown: [1], ArrowLeft: [0, 0], ArrowRight: [0, 1] };
    if (event.key === "Enter" || event.key === " ") pin(one);
    else if (event.key === "Escape") pin(null);
    else if (steps[event.key]) {
      const [step, side = one?.side ?? 0] = steps[event.key];
      const at = clamp(0, one ? one.at + step : 0, names[side].length - 1);
      move({ side, at });
      stage.reveal(0, TOP + at * TOKEN, 1, TOKEN, 0, TOP);
    } else return false;
    return true;
  }

  const swatch = (head) => {
    const name = panel.names?.[kept.layer]?.[head], label = `head ${head}${name ? `: ${name}` : ""}`;
    const turn = () => {
      kept.lit = toggled(kept.lit, head).sort((a, b) => a - b);
      kept.head = kept.lit.length === 1 ? kept.lit[0] : null;
      pressed(one, kept.lit.includes(head));
      refill();
      say();
      again();
    };
    const one = button(String(head), turn, { "--own": own(head), title: label, "aria-label": label,
      "aria-pressed": kept.lit.includes(head) });
    return one;
  };
  const swatches = make("div.swatches", { role: "group", "aria-label": "heads" });
  const light = () => { if (heads > 1) swatches.replaceChildren(...upTo(heads).map(swatch)); };
  const table = asTable(panel.rows, panel.columns, (row, column) => share(mean(row, column)));
  const again = () => { draw(); if (table) table.refill(); };
  light();
  stand.append(swatches, line, stage.element, table);
  tell();
  return () => { light(); again(); };
}

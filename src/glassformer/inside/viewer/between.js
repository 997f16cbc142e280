// The head view: tokens in two columns, a line for every weight, a colour for every head.

const TOKEN = 25; // pixels from token to token
const LEAST = 0.02; // a weight below it has no line

function linesOfHeads(panel, weights, kept, stand, { say, refill }) {
  const { rows, columns, heads } = weights, names = [panel.rows.map(shown), panel.columns.map(shown)];
  kept.lines ??= {};
  const state = kept.lines, line = reading("Point at a token to see only its lines; a click keeps them.");
  state.pin ??= null;
  let over = null; // { side: 0 left or 1 right, at }
  const chosen = () => over ?? state.pin;
  const swatches = make("div.swatches", { role: "group", "aria-label": "heads" });
  const mixed = () => kept.lit.map((head) => [head, weights.of(kept.layer, head)]);

  // The mean weight over the heads that are lit, from or to the chosen token.
  const beside = ({ side, at }) => {
    const matrices = mixed(), other = side === 0 ? columns : rows, out = new Float32Array(other);
    const weight = (values, i) => (side === 0 ? values[at * columns + i] : values[i * columns + at]);
    for (const [, values] of matrices)
      for (let i = 0; i < other; i++) out[i] += weight(values, i) / matrices.length;
    return out;
  };
  const tell = () => {
    const one = chosen();
    if (!one) { line.textContent = ""; return; }
    const parts = Array.from(beside(one), (weight, i) => [weight, i]).filter(([weight]) => weight >= 0.005)
      .sort((a, b) => b[0] - a[0]).slice(0, 6);
    const name = (side, at) => isolated([panel.rows, panel.columns][side][at]);
    const listed = parts.map(([weight, i]) => `${name(1 - one.side, i)} ${share(weight)}`).join(", ") || "nothing";
    const mean = kept.lit.length > 1 ? ` (mean of ${kept.lit.length} heads)` : "";
    line.textContent = `${name(one.side, one.at)} ${one.side ? "is looked at by" : "looks at"} ${listed}${mean}`;
  };
  let edges = [0, 0];
  const stage = new Stage({
    label: `Lines between ${count(rows, "token")} that look and ${count(columns, "token")} looked at. `
      + "Up and down move, left and right change sides, Enter keeps.",
    kept: state,
    measure: (width) => {
      const most = Math.min(180, width * 0.34);
      const room = Math.min(width, 620), side = [widest(names[0], 13.5, most), widest(names[1], 13.5, most)];
      edges = [side[0] + 54, room - side[1] - 54];
      return [Math.floor(room), Math.ceil(Math.max(rows, columns) * TOKEN + 34)];
    },
    paint: (pen) => paint(pen),
    point: (x, y) => move(token(x, y)),
    leave: () => move(null),
    press: (x, y) => pin(token(x, y)),
    key: (event) => key(event),
  });
  const height = (at) => 34 + (at + 0.5) * TOKEN - stage.top;

  function paint(pen) {
    const one = chosen(), seen = (at) => height(at) > -TOKEN && height(at) < stage.height + TOKEN;
    for (const [head, values] of mixed()) {
      pen.strokeStyle = named(`--c${head % OWN_COLOURS}`);
      for (let row = 0; row < rows; row++) {
        if (one?.side === 0 && one.at !== row) continue;
        for (let column = 0; column < columns; column++) {
          const weight = values[row * columns + column];
          if (weight < LEAST || (one?.side === 1 && one.at !== column) || !(seen(row) || seen(column))) continue;
          pen.globalAlpha = Math.min(1, 0.08 + 0.92 * weight) * (one || kept.lit.length < 3 ? 1 : 0.75);
          pen.lineWidth = 0.6 + 4.4 * weight;
          const [from, to] = [height(row), height(column)], bend = (edges[1] - edges[0]) * 0.35;
          pen.beginPath();
          pen.moveTo(edges[0], from);
          pen.bezierCurveTo(edges[0] + bend, from, edges[1] - bend, to, edges[1], to);
          pen.stroke();
        }
      }
    }
    pen.globalAlpha = 1;
    const written = one ? beside(one) : null;
    names.forEach((tokens, side) =>
      tokens.forEach((name, at) => { if (seen(at)) write(pen, name, side, at, one, written); }));
    pen.fillStyle = named("--card");
    pen.fillRect(0, 0, stage.width, 26);
    pen.fillStyle = named("--quiet");
    pen.font = font(11.5);
    pen.textAlign = "right";
    pen.fillText(panel.row_name || "looks", edges[0] - 10, 14);
    pen.textAlign = "left";
    pen.fillText(panel.column_name || "is looked at", edges[1] + 10, 14);
  }

  function write(pen, name, side, at, one, written) {
    const self = one?.side === side && one.at === at, y = height(at), weight = one && one.side !== side ? written[at]
      : 0;
    const x = edges[side] + (side ? 8 : -8), room = side ? stage.width - edges[1] - 50 : edges[0] - 50;
    pen.font = font(13.5, self || weight >= 0.1);
    pen.textAlign = side ? "left" : "right";
    pen.fillStyle = named(self ? "--accent" : one && one.side !== side && weight < 0.005 ? "--quiet" : "--ink");
    pen.fillText(cut(pen, name, room), x, y);
    if (weight < 0.005) return;
    pen.font = font(11.5);
    pen.fillStyle = named("--quiet");
    pen.textAlign = side ? "right" : "left";
    pen.fillText(share(weight), side ? stage.width - 4 : 4, y);
  }

  function token(x, y) {
    const at = Math.floor((y + stage.top - 34) / TOKEN), side = x <= edges[0] ? 0 : x >= edges[1] ? 1 : null;
    return side === null || at < 0 || at >= names[side].length ? null : { side, at };
  }

  const same = (a, b) => a?.side === b?.side && a?.at === b?.at;
  function move(to) {
    if (same(to, over)) return;
    over = to;
    stage.draw();
    tell();
  }

  function pin(to) {
    state.pin = same(to, state.pin) ? null : to;
    over = to;
    stage.draw();
    tell();
  }

  function key(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key], turn = event.key === "ArrowLeft" ? 0
      : event.key === "ArrowRight" ? 1 : null;
    const one = chosen();
    if (event.key === "Enter" || event.key === " ") pin(one);
    else if (event.key === "Escape") pin(null);
    else if (step || turn !== null) {
      const side = turn ?? one?.side ?? 0;
      const at = Math.max(0, Math.min(names[side].length - 1, one ? one.at + (step ?? 0) : 0));
      move({ side, at });
      stage.reveal(0, 34 + at * TOKEN, 1, TOKEN, 0, 34);
    } else return false;
    return true;
  }

  const light = () => swatches.replaceChildren(...(heads === 1 ? [] : Array.from({ length: heads }, (_, head) => {
    const name = panel.names?.[kept.layer]?.[head], label = `head ${head}${name ? `: ${name}` : ""}`;
    const button = make("button", { type: "button", "--own": own(head), title: label, "aria-label": label,
      "aria-pressed": kept.lit.includes(head), onclick: () => {
      kept.lit = kept.lit.includes(head) ? kept.lit.filter((one) => one !== head) : [...kept.lit, head]
        .sort((a, b) => a - b);
      kept.head = kept.lit.length === 1 ? kept.lit[0] : null;
      button.setAttribute("aria-pressed", kept.lit.includes(head));
      refill();
      say();
      stage.draw();
      tell();
    } }, String(head));
    return button;
  })));
  light();
  const table = asTable(panel.rows, panel.columns,
    (row, column) => share(mixed().reduce((sum, [, values]) => sum + values[row * columns + column] / kept.lit.length,
    0)));
  stand.append(swatches, line, stage.element, table);
  tell();
  return { changed() { light(); stage.draw(); tell(); if (table) table.refill(); } };
}

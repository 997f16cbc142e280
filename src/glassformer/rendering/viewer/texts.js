// Words, tables and shaded text.

drawers.words = (panel) => {
  if (!panel.code) return make("div.words", {}, ...panel.text.split(/\n{2,}/).map((part) => make("p", {}, part)));
  const text = make("pre", {}, panel.text);
  const done = (worked) => {
    copier.textContent = worked ? "copied" : "marked: press Ctrl+C";
    setTimeout(() => { copier.textContent = "copy"; }, 2000);
  };
  // In a frame of a notebook the clipboard may be out of reach: then the text is marked, to be copied by hand.
  const byHand = () => {
    getSelection().selectAllChildren(text);
    try {
      done(document.execCommand("copy"));
    } catch {
      done(false);
    }
  };
  const copier = button("copy", () => {
    if (!navigator.clipboard || self !== top) byHand();
    else navigator.clipboard.writeText(panel.text).then(() => done(true), byHand);
  });
  return make("div.code", {}, text, copier);
};

// Letters of the names of rows that stay in sight while the rest of the table scrolls.
const LONGEST_NAME = 40, UNBROKEN_NAME = 24; // the latter stand on one line
const MANY_BARS = 4; // columns of bars from which on these are shorter
// A number as it is written for a reader: 0.868 ± 0.010, 0.02 (0.01 to 0.03), 3.0 min, 12k, 80–100.
const NUMBER = /^[−-]?[\d.,∞]+(\s[±(].*|–[\d.,]+|\s?[a-zµ%]{1,3}|\s[KMG]iB|[kMB])?$/;

drawers.table = (panel, kept) => {
  const kinds = panel.columns.map((_, at) => panel.rows.map((row) => typeof row[at]));
  const numeric = kinds.map((kind) => kind.includes("number") && !kind.includes("string"));
  const written = panel.columns.map((_, at) => panel.rows.map((row) => row[at]).filter((one) => one))
    .map((cells) => cells.length && cells.every((one) => NUMBER.test(one)));
  const style = (at) => (numeric[at] ? ".number" : written[at] ? ".number.written" : "");
  const heads = panel.columns.map((name, at) => make(`th${style(at)}`, { scope: "col" },
    button(name, () => sort(at), { title: "sort" })));
  const body = make("tbody");
  const cell = (value, at) => {
    if (value === null) return make(`td${style(at)}`, {}, "–");
    if (typeof value !== "number") return make(`td${style(at)}`, {}, make("bdi", {}, String(value)));
    if (!panel.bars.includes(panel.columns[at])) return make("td.number", {}, said(value));
    return make("td.number.bar", { "--share": clamp(0, value, 1) }, make("i"), value.toFixed(3));
  };
  const fill = () => {
    let rows = panel.rows;
    if (kept.by !== undefined) {
      const { by, down } = kept, missing = (row) => row[by] === null;
      const order = (a, b) => (numeric[by] ? a[by] - b[by] : String(a[by]).localeCompare(String(b[by])));
      rows = [...rows].sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : (down ? -1 : 1) * order(a, b)));
    }
    const way = kept.down ? "descending" : "ascending";
    heads.forEach((head, at) => head.setAttribute("aria-sort", at === kept.by ? way : "none"));
    body.replaceChildren(...rows.map((row) => {
      const line = make("tr", {}, ...row.map(cell)), colour = panel.colours[panel.rows.indexOf(row)];
      if (panel.colours.length) line.firstChild.prepend(make("i.spot",
        colour === null ? {} : { "--own": own(colour) }));
      return line;
    }));
  };
  // Numbers: the largest first; words: from A. A second click turns it around, a third gives the order they came in.
  const sort = (at) => {
    const first = numeric[at];
    if (kept.by !== at) Object.assign(kept, { by: at, down: first });
    else if (kept.down === first) kept.down = !first;
    else delete kept.by;
    fill();
  };
  if (kept.by >= panel.columns.length) delete kept.by;
  fill();
  const longest = Math.max(0, ...panel.rows.map((row) => String(row[0]).length));
  const names = longest <= UNBROKEN_NAME ? ".named.unbroken" : longest <= LONGEST_NAME ? ".named" : "";
  return make(`div.wide.table${names}`, { tabindex: "0", role: "region", "aria-label": panel.title || "a table" },
    make("table", { "--track": panel.bars.length < MANY_BARS ? "6rem" : "3.2rem" },
      make("thead", {}, make("tr", {}, ...heads)), body));
};

// Arrow keys go from one element to the next; only the one reached last is a stop of the Tab key.
function roving(elements, across) {
  const reached = (element) => elements.forEach((one) => { one.tabIndex = one === element ? 0 : -1; });
  const row = (at) => Math.floor(at / across);
  reached(elements[0]);
  elements.forEach((element, at) => {
    element.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
      const next = elements[at + step], sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
      if (!next || (sideways && across > 1 && row(at) !== row(at + step))) return;
      event.preventDefault();
      next.focus();
    });
    element.addEventListener("focus", () => reached(element));
  });
}

drawers.tokens = (panel) => {
  const values = array(panel.values), [rows, width] = panel.values.shape, scale = ends(values, panel);
  const line = reading("Point at a word to read its value."), element = make("div", {}, line);
  const glued = !panel.tokens.some((token) => /\s/.test(token)); // tokens that bring no blanks of their own get some
  const backs = [];
  for (let row = 0; row < rows; row++) {
    const name = panel.names[row] ?? "";
    const text = make("div.shaded", { role: "group", "aria-label": name || panel.title || "shaded text" });
    const spans = panel.tokens.map((token, at) => {
      const value = values[row * width + at];
      const tell = () => { line.textContent = `${isolated(token)}${name ? `, ${name}` : ""}: ${said(value)}`; };
      const words = /^\s+$/.test(token) ? token.replaceAll(" ", "␣").replaceAll("\n", "⏎\n") : token;
      const span = make("span", { "data-token": at, title: said(value), "aria-label": `${shown(token)}: ${said(value)}`, role: "img",
        onpointerenter: tell, onfocus: tell }, words);
      backs.push([span, placed(value, scale)]);
      text.append(span, glued ? " " : "");
      return span;
    });
    roving(spans, 1);
    furnish(element, {}, name && make("h4", {}, name), text);
  }
  element.append(scaleBar(scale));
  return painted(element, () => backs.forEach(([span, part]) => back(span, part)));
};

drawers.chips = (panel) => make("div.chips", { role: "list" }, ...panel.lines.map((line, at) => {
  const fresh = new Set(panel.marked[at] ?? []);
  const chips = line.map((piece, i) =>
    make(`bdi.chip${fresh.has(i) ? ".fresh" : ""}`, { "--own": own(panel.groups[at][i]) }, piece));
  return make("div.cut", { role: "listitem" }, make("span", {}, panel.names[at] ?? ""), make("div", {}, ...chips));
}));

drawers.guesses = (panel) => {
  const probabilities = array(panel.probabilities), [layers, tokens, most] = panel.probabilities.shape;
  const listed = make("div.likeliest", { "aria-live": "polite" });
  const at = (layer, token, place) => probabilities[(layer * tokens + token) * most + place];
  const right = (guess, token) => panel.answers && panel.answers[token] !== "" && guess === panel.answers[token];
  const [where, asked] = panel.at ? ["At", "what stands there"] : ["After", "what followed"];
  const list = (layer, token) => {
    const answer = panel.answers?.[token] ? `; ${asked}: ${isolated(panel.answers[token])}` : "";
    const head = make("p", {}, `${where} ${isolated(panel.tokens[token])}, ${panel.layers[layer]}${answer}`);
    const lines = panel.guesses[layer][token].flatMap((guess, place) => [
      make("bdi", {}, shown(guess) + (right(guess, token) ? " ✓" : "")),
      make("i", { "--share": at(layer, token, place) }),
      make("span", {}, share(at(layer, token, place))),
    ]);
    listed.replaceChildren(head, ...lines);
  };
  const cells = [];
  const cellOf = (layer, token) => {
    const guess = panel.guesses[layer][token][0], good = right(guess, token), tell = () => list(layer, token);
    const label = `${shown(guess)}, ${share(at(layer, token, 0))}${good ? ", right" : ""}`;
    const heard = { "data-token": token, "data-layer": layer, "aria-label": label, onpointerenter: tell, onclick: tell, onfocus: tell };
    const cell = make(`td${good ? ".right" : ""}`, heard, make("bdi", {}, shown(guess)));
    cells.push([cell, at(layer, token, 0)]);
    return cell;
  };
  const body = panel.layers.map((name, layer) => [name, panel.tokens.map((_, token) => cellOf(layer, token))]);
  if (panel.answers) body.push([asked,
    panel.answers.map((answer) => make("td.answer", {}, make("bdi", {}, answer === "" ? "" : shown(answer))))]);
  roving(cells.map(([cell]) => cell), tokens);
  const heads = panel.tokens.map((token, at) => make("th", { scope: "col", "data-token": at }, make("bdi", {}, shown(token))));
  const stand = make("div.wide");
  // What is too wide for the page stands in bands, one beneath another.
  const lay = (bands) => {
    const wide = Math.ceil(tokens / bands), part = (all, band) => all.slice(band * wide, (band + 1) * wide);
    stand.replaceChildren(...upTo(Math.ceil(tokens / wide)).map((band) => make("table", {},
      make("thead", {}, make("tr", {}, make("td"), ...part(heads, band))),
      make("tbody", {}, ...body.map(([name, row]) =>
        make("tr", {}, make("th", { scope: "row" }, name), ...part(row, band)))))));
    return Math.max(...Array.from(stand.children, (table) => table.offsetWidth));
  };
  lay(1);
  sized(stand, (width) => {
    const names = body[0][1][0].offsetLeft, whole = lay(1);
    if (whole <= width) return;
    let bands = Math.min(tokens, Math.ceil((whole - names) / Math.max(80, width - names)));
    while (lay(bands) > width && bands < tokens) bands++;
  });
  const element = make("div.guesses", {}, stand, scaleBar({ low: 0, high: 1, signed: false }), listed);
  const hidden = panel.at ? (panel.answers ?? []).indexOf("") : -1; // MASK is what one asks for
  list(layers - 1, hidden < 0 ? tokens - 1 : hidden);
  return painted(element, () => cells.forEach(([cell, part]) => back(cell, part)));
};

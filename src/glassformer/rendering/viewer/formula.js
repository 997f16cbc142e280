// Formulas as mathematics: "score = q · k / √d_k, over the row" becomes MathML, and what is no formula stays words.

const NAMED = new Set(["sin", "cos", "tanh", "ln", "log", "exp", "max", "mean", "silu", "gelu", "relu", "sigmoid",
  "softmax", "score", "scores", "loss", "answer", "PE", "token"]);
const PART = /\s+|\p{L}[\p{M}\u0304]*|[\d.]+|./gu;
const RAISED = { "²": "2", "³": "3", "ᵀ": "T", "′": "′", "″": "″" };
const LOWERED = { "₀": "0", "₁": "1", "₂": "2", "₃": "3", "₄": "4", "ᵢ": "i", "ₜ": "t" };
const SUMS = ["+", "−", "=", "←", ",", ";"];

function math(name, ...children) {
  const element = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
  element.append(...children);
  return element;
}

function pieces(text) {
  const words = [];
  for (const word of text.match(/[A-Za-z]{2,}|[^A-Za-z]+|[A-Za-z]/g) ?? []) {
    if (NAMED.has(word)) words.push(word);
    else if (/^[a-z]{3,}$/.test(word)) return null; // a word of a sentence
    else words.push(...word.match(PART).filter((part) => part.trim()));
  }
  return words;
}

// sum: products with signs between; product: factors, over what stands after a /; factor: with what is raised and lowered.
function parsed(words) {
  let at = 0;
  const peek = () => words[at];
  const row = (parts) => (parts.length === 1 ? parts[0] : math("mrow", ...parts));
  const within = (close) => {
    const inner = sum((word) => word === close);
    if (words[at++] !== close) throw new Error("a bracket is missing");
    return inner;
  };
  const atom = () => {
    const word = words[at++];
    if (word === undefined) throw new Error("something is missing");
    if (word === "√") return math("msqrt", peek() === "(" ? (at++, within(")")) : factor());
    if ("([".includes(word)) {
      const close = word === "(" ? ")" : "]";
      return math("mrow", math("mo", word), within(close), math("mo", close));
    }
    if (/^[\d.]/.test(word)) return math("mn", word);
    if (NAMED.has(word) && word.length > 1) return peek() === undefined || "()=/".includes(peek()) ? math("mi", word)
      : math("mrow", math("mi", word), math("mtext", "\u2009"));
    return /^\p{L}/u.test(word) ? math("mi", word) : math("mo", word);
  };
  const script = () => (peek() === "(" ? (at++, within(")")) : atom());
  const factor = () => {
    if (peek() === "∂") {
      at++;
      return math("mrow", math("mo", "∂"), factor());
    }
    let base = atom(), below = null, above = [];
    for (;;) {
      const next = peek();
      if (next === "_") { at++; below = script(); }
      else if (next === "^") { at++; above.push(script()); }
      else if (LOWERED[next]) { at++; below = math("mn", LOWERED[next]); }
      else if (RAISED[next]) { at++; above.push(math("mo", RAISED[next])); }
      else break;
    }
    if (below && above.length) return math("msubsup", base, below, row(above));
    if (below) return math("msub", base, below);
    return above.length ? math("msup", base, row(above)) : base;
  };
  const product = (ends) => {
    let parts = [];
    while (at < words.length && !ends(peek()) && !SUMS.includes(peek())) {
      if (peek() === "/") {
        at++;
        const under = peek() === "Σ" ? [atom(), product(ends)] : [bare(factor())];
        parts = [math("mfrac", row(parts.map(bare)), row(under))];
      } else parts.push(factor());
    }
    return row(parts);
  };
  const sum = (ends) => {
    const parts = [];
    while (at < words.length && !ends(peek())) {
      if (SUMS.includes(peek())) parts.push(math("mo", words[at++]));
      else parts.push(product(ends));
    }
    return row(parts);
  };
  // Over or under a line, brackets around everything say nothing.
  const bare = (element) => (element.localName === "mrow" && element.firstChild.textContent === "("
    && element.lastChild.textContent === ")" ? element.children[1] : element);
  const all = sum(() => false);
  if (at < words.length) throw new Error("more than a formula");
  return all;
}

// The formula, and after its first comma or semicolon outside brackets the words that explain it.
function formulaOf(text) {
  let depth = 0, cut = 0;
  const parts = [];
  Array.from(text).forEach((letter, i) => {
    depth += "([".includes(letter) - ")]".includes(letter);
    if (depth || !",;".includes(letter)) return;
    parts.push(Array.from(text).slice(cut, i).join(""), letter);
    cut = i + 1;
  });
  parts.push(Array.from(text).slice(cut).join(""));
  let formulas = 0;
  const made = parts.map((part, i) => {
    const words = i === 0 || /[=←]/.test(part) ? pieces(part) : null;
    if (!words?.length) return part;
    try {
      const element = math("math", parsed(words));
      element.setAttribute("displaystyle", "true");
      formulas++;
      return element;
    } catch {
      return part;
    }
  });
  if (!formulas) return make("p.formula", {}, text);
  return make("p.formula.math", { title: text }, ...made.map((part, i) =>
    (typeof part === "string" && made[i - 1] instanceof Element ? part.trimEnd() : part)));
}

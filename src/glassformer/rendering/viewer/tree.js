// A tree of tokens from left to right, what was chosen above the rest. A click, or Enter, asks for more branches ("grow",
// with the path of ids), and "grown" brings them.

const FATES = ["chosen", "kept", "pruned"];
const ROW = 45, CHIP = 25, BETWEEN_CHIPS = 38, THICKEST = 11, LONGEST_WHY = 150, LONGEST_TOKEN = 170;

// Children by parent (null: the root), and the column and row of each branch that is seen: those of one column stand in
// the order of their parents.
function layTree(branches, visible) {
  const children = new Map([[null, []]]), columns = [], rows = [], levels = [[]];
  branches.forEach((one, at) => {
    columns[at] = one.parent === null ? 1 : columns[one.parent] + 1;
    if (visible(one)) (levels[columns[at]] ??= []).push(at);
  });
  const above = (at) => rows[branches[at].parent] ?? 0, rank = (at) => FATES.indexOf(branches[at].fate);
  const order = levels.flatMap((level) => level.sort((a, b) =>
    above(a) - above(b) || rank(a) - rank(b) || branches[b].probability - branches[a].probability).map((at, row) => {
    rows[at] = row;
    children.set(at, []);
    children.get(branches[at].parent).push(at);
    return at;
  }));
  return { children, columns, rows, order, height: Math.max(1, ...levels.map((level) => level.length)) };
}

drawers.tree = (panel, kept) => {
  kept.grown ??= [];
  kept.seen ??= "all";
  const branches = [...panel.branches, ...kept.grown], line = reading("Point at a token to read its probability and what became of it.");
  const box = make("div.wide.tree-box"), items = new Map();
  const pathOf = (at) => (at === null ? [] : [...pathOf(branches[at].parent), at]);
  const told = (at) => {
    if (at === null) return `${isolated(panel.root)}: where it begins`;
    const { token, told: words, why } = branches[at];
    return [`${isolated(token)}: ${words}`, why].filter(Boolean).join("; ");
  };
  const among = { all: () => true, followed: (one) => one.fate !== "pruned", chosen: (one) => one.fate === "chosen" };

  const tell = (at) => {
    line.textContent = told(at);
    const way = new Set(pathOf(at));
    items.forEach((item, other) => item.classList.toggle("way", way.has(other) || other === at));
  };
  const grow = (at) => {
    const path = pathOf(at).map((one) => branches[one]);
    element.dispatchEvent(new CustomEvent("grow",
      { bubbles: true, detail: { path: path.map((one) => one.id), tokens: path.map((one) => one.token) } }));
  };
  const reach = (at) => {
    items.forEach((item, other) => item.setAttribute("tabindex", other === at ? 0 : -1));
    kept.at = at;
  };

  function paint() {
    const { children, columns, rows, order, height } = layTree(branches, among[kept.seen]);
    const wide = (one) => widest([visible(one.token)], 13.5, LONGEST_TOKEN) + 8 + widest([share(one.probability)], 11, 60) + 18;
    const rootWide = widest([shown(panel.root)], 13.5, LONGEST_TOKEN) + 18;
    const across = [rootWide];
    const room = (one) => Math.max(wide(one), 8 + widest([one.why], 11, LONGEST_WHY));
    order.forEach((at) => { across[columns[at]] = Math.max(across[columns[at]] ?? 0, room(branches[at])); });
    const lefts = across.map((_, column) => 6 + across.slice(0, column).reduce((sum, one) => sum + one + BETWEEN_CHIPS, 0));
    const top = (row) => 8 + row * ROW, middle = (at) => (at === null ? top(0) : top(rows[at])) + CHIP / 2;
    const width = Math.ceil(lefts.at(-1) + across.at(-1) + 8), total = 12 + height * ROW;
    const lines = [...order].reverse().map((at) => {
      const { parent, fate, probability } = branches[at];
      const from = parent === null ? lefts[0] + rootWide : lefts[columns[parent]] + wide(branches[parent]);
      const [to, start, end] = [lefts[columns[at]], middle(parent), middle(at)], bend = BETWEEN_CHIPS * 0.55;
      const turn = to - BETWEEN_CHIPS; // straight past wider tokens, then a curve
      return svg("path", { class: `edge ${fate}`, fill: "none", "stroke-width": Math.max(0.8, THICKEST * probability).toFixed(2),
        d: `M${from} ${start}L${Math.max(from, turn)} ${start}C${Math.max(from, turn) + bend} ${start} ${to - bend} ${end} ${to} ${end}` });
    });
    items.clear();
    const item = (at, left, name, chipWide, fate, level, place, among) => {
      ruler.font = font(13.5, true);
      const words = cut(ruler, name, LONGEST_TOKEN);
      const heard = { onpointerenter: () => tell(at), onfocus: () => { reach(at); tell(at); }, onclick: () => { reach(at); tell(at); grow(at); } };
      const chip = svg("g", { class: `chip ${fate}`, role: "treeitem", "aria-level": level, "aria-posinset": place,
        "aria-setsize": among, "aria-selected": fate === "chosen", "aria-label": told(at), transform: `translate(${left} ${middle(at) - CHIP / 2})`, ...heard },
      svg("rect", { width: chipWide, height: CHIP, rx: 7 }), svg("text", { x: 9, y: CHIP / 2 + 4.5 }, words),
      at === null ? "" : svg("text", { class: "chance", x: chipWide - 9, y: CHIP / 2 + 4, "text-anchor": "end" }, share(branches[at].probability)),
      words.endsWith("…") ? svg("title", {}, at === null ? panel.root : branches[at].token) : "");
      const why = at === null ? "" : branches[at].why;
      ruler.font = font(11);
      if (why) chip.append(svg("text", { class: "why", x: 3, y: CHIP + 12 }, cut(ruler, why, LONGEST_WHY)));
      items.set(at, chip);
      return chip;
    };
    const chips = order.map((at) => {
      const { parent, token, fate } = branches[at], some = children.get(parent);
      return item(at, lefts[columns[at]], visible(token), wide(branches[at]), fate, columns[at] + 1, some.indexOf(at) + 1, some.length);
    });
    const root = item(null, lefts[0], shown(panel.root), rootWide, "root", 1, 1, 1);
    const key = (event) => {
      const at = kept.at, depth = at === null ? 0 : columns[at], same = order.filter((one) => columns[one] === depth);
      const beside = same.sort((a, b) => rows[a] - rows[b]), place = beside.indexOf(at);
      const to = { ArrowRight: () => children.get(at)[0], ArrowLeft: () => (at === null ? undefined : branches[at].parent),
        ArrowUp: () => beside[place - 1], ArrowDown: () => beside[place + 1], Home: () => null, End: () => order.at(-1) }[event.key];
      if (event.key === "Enter" || event.key === " ") grow(at);
      else if (!to) return;
      event.preventDefault();
      items.get(to?.())?.focus();
    };
    const picture = svg("svg", { width, height: total, viewBox: `0 0 ${width} ${total}`, role: "tree", "aria-label":
      `${panel.title || "A tree"}. Arrow keys go along its branches, Enter grows one.`, onkeydown: key }, ...lines, root, ...chips);
    box.replaceChildren(make("div", { style: `width:${width}px` }, picture));
    reach(items.has(kept.at) ? kept.at : null);
  }

  if (!branches.some((one) => one.fate === "kept")) delete among.followed;
  if (!among[kept.seen]) kept.seen = "all";
  const choose = several("branches", Object.keys(among), kept.seen, (name) => { kept.seen = name; paint(); });
  const element = make("div.tree", {}, make("div.controls", {}, choose.element), line, box);
  // { path: ids, branches: [{ id, token, probability, told, why, fate }] }: they follow what stands at the path.
  element.addEventListener("grown", ({ detail }) => {
    const same = (at) => pathOf(at).map((one) => branches[one].id).join() === detail.path.join();
    const parent = detail.path.length ? upTo(branches.length).find(same) : null;
    if (parent === undefined) return;
    const there = new Set(branches.filter((one) => one.parent === parent).map((one) => one.id));
    const fresh = detail.branches.filter((one) => !there.has(one.id));
    const added = fresh.map((one) => ({ fate: "kept", why: "", told: `probability ${chance(one.probability)}`, ...one, parent }));
    kept.grown.push(...added);
    branches.push(...added);
    paint();
    items.get(parent)?.focus();
  });
  return painted(element, paint);
};

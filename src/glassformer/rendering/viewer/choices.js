// Numbers that go through several steps: a column each, its bars on one scale; what was cut is grey.

drawers.choices = (panel) => {
  const values = array(panel.values), columns = panel.columns.length;
  const at = (row, column) => values[row * columns + column];
  const bar = (row, column) => {
    const value = at(row, column), [low, high] = panel.scales[column];
    if (!Number.isFinite(value)) return make("td.step", {}, make("span.cut", {}, panel.why[row] || "cut"));
    return make("td.step", {}, make("span.value", {}, column === columns - 1 ? chance(value) : said(value)),
      make("span.track", {}, make("i", { "--share": clamp(0, (value - low) / (high - low || 1), 1).toFixed(4) })));
  };
  const rows = panel.rows.map((name, row) => make(`tr${panel.why[row] ? ".pruned" : ""}`, {},
    make("th", { scope: "row" }, make("bdi", {}, shown(name))), ...panel.columns.map((_, column) => bar(row, column))));
  const heads = panel.columns.map((name, column) => make("th", { scope: "col" }, (column ? "→ " : "") + name,
    make("span.ends", {}, `${brief(panel.scales[column][0])} to ${brief(panel.scales[column][1])}`)));
  return make("div.wide.choices", { tabindex: "0", role: "region", "aria-label": panel.title || panel.name },
    make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, panel.name), ...heads)),
      make("tbody", {}, ...rows)));
};

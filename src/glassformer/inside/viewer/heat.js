// A matrix with names at its sides: the darker a cell, the larger its value. Names stay in sight while one scrolls.

const LABEL = 12.5; // pixels, a name's letters
const TURN = (52 * Math.PI) / 180; // names of columns lean, but for those of a letter or two
const GAP = 7;

class Heat {
  // values: R×C, row by row; scale: { low, high, signed }; numbers: written into cells; read(row, column) → words;
  // pick: rows can be pinned by their names.
  constructor({ rows, columns, rowName = "", columnName = "", values, scale, numbers = false, label, kept, read,
    readRow = null, line }) {
    Object.assign(this, { values, scale, numbers, kept, read, readRow, line, rowName, columnName });
    this.rows = rows.map(shown);
    this.columns = columns.map(shown);
    this.cursor = null;
    kept.pin ??= null;
    if (kept.pin !== null && kept.pin >= rows.length) kept.pin = null;
    this.stage = new Stage({
      label: `${label} Arrow keys move from cell to cell.`, kept,
      measure: (width) => this.measure(width), paint: (pen) => this.paint(pen),
      point: (x, y) => this.point(x, y), leave: () => this.move(null),
      press: (x, y) => this.press(x, y), key: (event) => this.key(event),
    });
    this.element = this.stage.element;
    this.tell();
  }

  show(values, scale) {
    Object.assign(this, { values, scale, image: null });
    this.stage.draw();
    this.tell();
  }

  measure(width) {
    const R = this.rows.length, C = this.columns.length, fit = onPaper || this.kept.whole;
    this.side = Math.ceil(widest([...this.rows, `${this.rowName} ↓`, `${this.columnName} →`], LABEL,
      Math.min(170, width * 0.32))) + GAP * 2;
    const names = widest(this.columns, LABEL, 150),
      room = width - this.side - 4 - (names > 36 || fit ? names * Math.cos(TURN) + LABEL : 0);
    const roomy = this.numbers ? Math.max(34, widest(Array.from(this.values.slice(0, 4000), brief), LABEL, 90) + 12)
      : 18;
    const most = this.numbers ? 64 : Math.max(24, Math.min(40, (innerHeight * 0.7 - 90) / R));
      // all in sight, if it can be
    this.wide = fit ? Math.min(this.numbers ? 64 : 36, room / C)
      : Math.max(roomy, Math.floor(Math.min(most, room / C)));
    this.high = fit ? Math.min(28, this.wide) : this.numbers ? 30 : Math.min(this.wide, most, R > 20 ? 22 : 40);
    if (fit) this.high = Math.min(this.high, Math.max(1, ((onPaper ? PAPER * 1.3 : innerHeight * 0.7) - 90) / R));
    this.leaning = names > this.wide - 4;
    this.head = Math.ceil(this.leaning ? names * Math.sin(TURN) + LABEL : LABEL + 4) + GAP
      + (this.rowName && !this.leaning ? LABEL + GAP : 0);
    this.head = Math.max(this.head, this.columnName || this.rowName ? 2 * LABEL + 2 * GAP : 0);
    ruler.font = font(LABEL);
    const reach = this.leaning ? this.columns.reduce((most, name, i) =>
      Math.max(most, (i + 0.5) * this.wide + Math.min(150, ruler.measureText(name).width) * Math.cos(TURN) + LABEL), 0)
        : 0;
    this.image = null;
    return [Math.ceil(this.side + Math.max(C * this.wide, reach) + 2), Math.ceil(this.head + R * this.high + 2)];
  }

  // One pixel a cell; stretched when it is painted.
  picture() {
    const R = this.rows.length, C = this.columns.length;
    const canvas = make("canvas", { width: C, height: R }), pen = canvas.getContext("2d"),
      data = pen.createImageData(C, R);
    const nothing = rgb(named("--void"));
    stain(data, (i) => {
      const share = placed(this.values[i], this.scale);
      return Number.isNaN(share) ? nothing : shade(share);
    });
    pen.putImageData(data, 0, 0);
    return canvas;
  }

  paint(pen) {
    const { left, top, width, height } = this.stage, { side, head, wide, high } = this;
    const R = this.rows.length, C = this.columns.length;
    const seen = (scroll, start, cell, room, count) =>
      [Math.max(0, Math.floor(scroll / cell)), Math.min(count, Math.ceil((scroll + room - start) / cell))];
    const [r0, r1] = seen(top, head, high, height, R), [c0, c1] = seen(left, side, wide, width, C);
    this.image ??= this.picture();
    const x = (column) => side + column * wide - left, y = (row) => head + row * high - top;
    pen.save();
    pen.beginPath();
    pen.rect(side, head, width, height);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    if (r1 > r0 && c1 > c0) pen.drawImage(this.image, c0, r0, c1 - c0, r1 - r0, x(c0), y(r0), (c1 - c0) * wide,
      (r1 - r0) * high);
    const pinned = this.kept.pin;
    if (pinned !== null) {
      pen.fillStyle = named("--card");
      pen.globalAlpha = 0.72;
      pen.fillRect(side, head, width, Math.max(0, y(pinned) - head));
      pen.fillRect(side, y(pinned + 1), width, height);
      pen.globalAlpha = 1;
    }
    if (Math.min(wide, high) >= 9) {
      pen.fillStyle = named("--card");
      for (let row = r0; row <= r1; row++) pen.fillRect(side, y(row) - 0.5, x(C) - side, 1);
      for (let column = c0; column <= c1; column++) pen.fillRect(x(column) - 0.5, head, 1, y(R) - head);
    }
    if (this.numbers && high >= 13) this.write(pen, r0, r1, c0, c1, x, y);
    if (this.cursor) this.mark(pen, x(this.cursor.column), y(this.cursor.row), wide, high);
    pen.restore();
    this.nameRows(pen, r0, r1, y);
    this.nameColumns(pen, c0, c1, x);
  }

  write(pen, r0, r1, c0, c1, x, y) {
    pen.font = font(Math.min(LABEL, this.high * 0.55, this.wide * 0.3));
    pen.textAlign = "center";
    for (let row = r0; row < r1; row++) for (let column = c0; column < c1; column++) {
      const value = this.values[row * this.columns.length + column], share = placed(value, this.scale);
      pen.fillStyle = this.kept.pin !== null && this.kept.pin !== row ? named("--quiet")
        : inkOn(Number.isNaN(share) ? rgb(named("--void")) : shade(share));
      pen.fillText(brief(value), x(column) + this.wide / 2, y(row) + this.high / 2 + 1);
    }
  }

  mark(pen, x, y, wide, high) {
    for (const [colour, thick] of [["--card", 5], ["--ink", 2]]) {
      pen.strokeStyle = named(colour);
      pen.lineWidth = thick;
      pen.strokeRect(x, y, Math.max(wide, 3), Math.max(high, 3));
    }
  }

  nameRows(pen, r0, r1, y) {
    const step = Math.max(1, Math.ceil(LABEL / this.high)), { height } = this.stage;
    pen.save();
    pen.beginPath();
    pen.rect(0, this.head, this.side, height);
    pen.clip();
    pen.textAlign = "right";
    for (let row = r0; row < r1; row++) {
      const chosen = row === this.cursor?.row || row === this.kept.pin;
      if (row % step && !chosen) continue;
      pen.font = font(LABEL, chosen);
      pen.fillStyle = named(chosen ? "--accent" : "--ink");
      pen.fillText(cut(pen, this.rows[row], this.side - 2 * GAP + 1), this.side - GAP, y(row) + this.high / 2 + 0.5);
    }
    pen.restore();
  }

  nameColumns(pen, c0, c1, x) {
    const step = Math.max(1, Math.ceil((LABEL + 2) / this.wide)), { width } = this.stage;
    pen.save();
    pen.beginPath();
    pen.rect(this.side, 0, width, this.head);
    pen.clip();
    // One more than can be seen: its leaning name may reach in.
    for (let column = c0; column < c1; column++) {
      const chosen = column === this.cursor?.column;
      if (column % step && !chosen) continue;
      pen.save();
      pen.font = font(LABEL, chosen);
      pen.fillStyle = named(chosen ? "--accent" : "--ink");
      pen.textAlign = this.leaning ? "left" : "center";
      pen.translate(x(column) + this.wide / 2, this.head - GAP + (this.leaning ? 1 : -3));
      if (this.leaning) pen.rotate(-TURN);
      pen.fillText(cut(pen, this.columns[column], this.leaning ? 150 : this.wide), 0, 0);
      pen.restore();
    }
    pen.restore();
    pen.font = font(11.5);
    pen.fillStyle = named("--quiet");
    pen.textAlign = "right";
    if (this.columnName) pen.fillText(cut(pen, `${this.columnName} →`, this.side - GAP), this.side - GAP,
      this.head - GAP - LABEL - 5);
    if (this.rowName) pen.fillText(cut(pen, `${this.rowName} ↓`, this.side - GAP), this.side - GAP,
      this.head - GAP - 1);
  }

  cell(x, y) {
    const row = Math.floor((y + this.stage.top - this.head) / this.high);
    const column = Math.floor((x + this.stage.left - this.side) / this.wide);
    return { row: y >= this.head && row < this.rows.length ? row : null,
      column: x >= this.side && column < this.columns.length ? column : null };
  }

  point(x, y) {
    const { row, column } = this.cell(x, y);
    this.move(row === null || column === null ? null : { row, column });
  }

  move(cursor) {
    if (cursor?.row === this.cursor?.row && cursor?.column === this.cursor?.column) return;
    this.cursor = cursor;
    this.stage.draw();
    this.tell();
  }

  tell() {
    const { cursor, kept } = this;
    this.line.textContent = cursor ? this.read(cursor.row, cursor.column) : kept.pin !== null && this.readRow
      ? this.readRow(kept.pin) : "";
  }

  press(x, y) {
    const { row, column } = this.cell(x, y);
    if (row !== null && column !== null) this.move({ row, column });
    else if (row !== null && x < this.side) this.pin(row);
  }

  pin(row) {
    if (!this.readRow) return;
    this.kept.pin = this.kept.pin === row ? null : row;
    this.stage.draw();
    this.tell();
  }

  key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity],
      End: [0, Infinity] };
    if (event.key === "Enter" || event.key === " ") {
      if (this.cursor) this.pin(this.cursor.row);
      return true;
    }
    if (event.key === "Escape") {
      this.kept.pin = null;
      this.cursor = null;
      this.stage.draw();
      this.tell();
      return true;
    }
    const step = steps[event.key];
    if (!step) return false;
    const within = (at, count) => Math.max(0, Math.min(count - 1, at));
    const to = this.cursor
      ? { row: within(this.cursor.row + step[0], this.rows.length),
        column: within(this.cursor.column + step[1], this.columns.length) }
      : { row: this.kept.pin ?? 0, column: 0 };
    this.move(to);
    this.stage.reveal(this.side + to.column * this.wide, this.head + to.row * this.high, this.wide, this.high,
      this.side, this.head);
    return true;
  }
}

// A button that fits all cells into sight, where they do not fit by themselves.
function wholeButton(heat, many) {
  if (!many) return "";
  const button = make("button", { type: "button", "aria-pressed": Boolean(heat.kept.whole), onclick: () => {
    heat.kept.whole = !heat.kept.whole;
    button.setAttribute("aria-pressed", heat.kept.whole);
    heat.stage.lay();
  } }, "whole");
  return button;
}

drawers.grid = (panel, kept) => {
  const values = array(panel.values), columns = panel.columns.length, scale = ends(values, panel);
  const name = (what, name) => (what ? `${what} ` : "") + isolated(name);
  const line = reading(panel.numbers ? "Point at a cell to follow it to its names."
    : "Point at a cell to read its value.");
  const heat = new Heat({
    rows: panel.rows, columns: panel.columns, rowName: panel.row_name, columnName: panel.column_name, values, scale,
    numbers: panel.numbers, kept, line, label: `${panel.title || "A matrix"}, ${panel.rows.length} × ${columns}.`,
    read: (row, column) => {
      const names = `${name(panel.row_name, panel.rows[row])}, ${name(panel.column_name, panel.columns[column])}`;
      return `${names}: ${said(values[row * columns + column])}`;
    },
  });
  return make("div", {}, panel.formula ? make("p.formula", {}, panel.formula) : "",
    make("div.controls", {}, wholeButton(heat, panel.rows.length > 40 || columns > 40)), line, heat.element,
      scaleBar(scale),
    asTable(panel.rows, panel.columns, (row, column) => said(values[row * columns + column])));
};

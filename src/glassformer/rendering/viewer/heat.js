// A matrix with names at its sides: the darker a cell, the larger its value. Names stay in sight while one scrolls.

const LABEL = 12.5; // pixels, a name's letters, where nobody wants others
const LONGEST = 150; // pixels, a column's name
const TURN = (52 * Math.PI) / 180; // names of columns lean, but for those of a letter or two
const GAP = 7;

class Heat {
  // values: R×C, row by row; scale: { low, high, signed }; numbers: written into cells; read(row, column) → words;
  // readRow(row) → words, where rows can be pinned by their names; line: where the words go. A page may say in `kept`
  // how large `letters` are, how high all may be (`tall()`), and which panel stands `beside` it, in cells as large.
  constructor({ panel, values, scale, numbers = false, label, kept, read, readRow = null, line }) {
    Object.assign(this, { values, scale, numbers, kept, read, readRow, line, cursor: null, causal: panel.causal });
    this.rows = panel.rows.map(shown);
    this.columns = panel.columns.map(shown);
    this.rowName = panel.row_name && `${panel.row_name} ↓`;
    this.columnName = panel.column_name && `${panel.column_name} →`;
    kept.pin = kept.pin < this.rows.length ? kept.pin : null;
    this.stage = new Stage({
      label: `${label} Arrow keys move from cell to cell.`, kept,
      measure: (width) => this.measure(width), paint: (pen) => this.paint(pen),
      point: (x, y) => this.point(x, y), leave: () => this.move(null),
      press: (x, y) => this.press(x, y), key: (event) => this.key(event),
    });
    this.element = this.stage.element;
    // somebody points at these tokens elsewhere
    this.element.addEventListener("light", ({ detail }) => { this.lit = detail; this.stage.draw(); });
    this.tell();
  }

  show(values, scale) {
    Object.assign(this, { values, scale, image: null });
    this.draw();
  }

  draw() {
    this.stage.draw();
    this.tell();
  }

  measure(width) {
    const fit = onPaper || this.kept.whole, letters = this.kept.letters ?? LABEL, { beside } = this.kept, tall = this.kept.tall?.();
    const [rows, columns] = ["rows", "columns"].map((side) => [...this[side], ...(beside?.[side].map(shown) ?? [])]);
    const R = Math.max(this.rows.length, beside?.rows.length ?? 0), C = Math.max(this.columns.length, beside?.columns.length ?? 0);
    this.side = Math.ceil(widest([...rows, this.rowName, this.columnName], letters, Math.min(170, width * 0.32))) + GAP * 2;
    const names = widest(columns, letters, LONGEST), lean = names * Math.cos(TURN) + letters;
    const across = (width - this.side - 4 - (names > 36 || fit ? lean : 0)) / C;
    const down = ((onPaper ? PAPER * 1.3 : tall ?? innerHeight * 0.7) - 90) / R; // so high, all rows are in sight
    if (fit) {
      this.wide = Math.min(this.numbers ? 64 : 36, across);
      this.high = Math.min(28, this.wide, Math.max(1, down));
    } else {
      const written = this.numbers ? widest(Array.from(this.values.slice(0, 4000), brief), letters, 90) + 12 : 0;
      const least = this.numbers ? Math.max(34, written) : tall ? 14 : 18;
      const largest = tall ? 60 : 40, most = this.numbers ? 64 : clamp(tall ? 14 : 24, down, largest);
      this.wide = Math.max(least, Math.floor(Math.min(most, across)));
      this.high = this.numbers ? 30 : Math.min(this.wide, most, R > 20 ? 22 : largest);
    }
    this.letters = tall ? clamp(11, this.wide - 2, letters) : letters;
    this.leaning = names > this.wide - 4;
    this.head = GAP + Math.ceil(this.leaning ? names * Math.sin(TURN) + letters : letters + 4);
    if (this.rowName && !this.leaning) this.head += letters + GAP;
    if (this.rowName || this.columnName) this.head = Math.max(this.head, 2 * letters + 2 * GAP);
    ruler.font = font(letters);
    const reaches = (name, i) =>
      (i + 0.5) * this.wide + Math.min(LONGEST, ruler.measureText(name).width) * Math.cos(TURN) + letters;
    const last = this.leaning ? Math.max(...this.columns.map(reaches)) : 0;
    this.image = null;
    return [Math.ceil(this.side + Math.max(this.columns.length * this.wide, last) + 2), Math.ceil(this.head + this.rows.length * this.high + 2)];
  }

  // One pixel a cell; stretched when it is painted.
  picture() {
    const canvas = make("canvas", { width: this.columns.length, height: this.rows.length });
    const pen = canvas.getContext("2d"), data = pen.createImageData(canvas.width, canvas.height);
    stain(data, (i) => shade(placed(this.values[i], this.scale)));
    pen.putImageData(data, 0, 0);
    return canvas;
  }

  paint(pen) {
    const { left, top, width, height } = this.stage, { side, head, wide, high } = this;
    const R = this.rows.length, C = this.columns.length;
    const x = (column) => side + column * wide - left, y = (row) => head + row * high - top;
    const inSight = (scroll, room, cell, number) =>
      [Math.floor(scroll / cell), Math.min(number, Math.ceil((scroll + room) / cell))];
    const [r0, r1] = inSight(top, height - head, high, R), [c0, c1] = inSight(left, width - side, wide, C);
    this.image ??= this.picture();
    clipped(pen, side, head, width, height, () => {
      pen.imageSmoothingEnabled = false;
      const [across, down] = [c1 - c0, r1 - r0];
      if (across > 0 && down > 0)
        pen.drawImage(this.image, c0, r0, across, down, x(c0), y(r0), across * wide, down * high);
      if (this.causal) {
        pen.fillStyle = hatching(pen);
        for (let row = r0; row < r1; row++) pen.fillRect(x(row + 1), y(row), Math.max(0, x(C) - x(row + 1)), high);
      }
      pen.fillStyle = hue("--card");
      if (this.kept.pin !== null) {
        pen.globalAlpha = 0.72;
        pen.fillRect(side, head, width, Math.max(0, y(this.kept.pin) - head));
        pen.fillRect(side, y(this.kept.pin + 1), width, height);
        pen.globalAlpha = 1;
      }
      if (Math.min(wide, high) >= 9) {
        for (let row = r0; row <= r1; row++) pen.fillRect(side, y(row) - 0.5, x(C) - side, 1);
        for (let column = c0; column <= c1; column++) pen.fillRect(x(column) - 0.5, head, 1, y(R) - head);
      }
      if (this.numbers && high >= 13) this.write(pen, r0, r1, c0, c1, x, y);
      if (this.cursor) this.mark(pen, x(this.cursor.column), y(this.cursor.row));
    });
    clipped(pen, 0, head, side, height, () => this.nameRows(pen, r0, r1, y));
    clipped(pen, side, 0, width, head, () => this.nameColumns(pen, c0, c1, x));
    this.nameSides(pen);
  }

  write(pen, r0, r1, c0, c1, x, y) {
    pen.font = font(Math.min(this.letters, this.high * 0.55, this.wide * 0.3));
    pen.textAlign = "center";
    for (let row = r0; row < r1; row++) for (let column = c0; column < (this.causal ? Math.min(c1, row + 1) : c1); column++) {
      const value = this.values[row * this.columns.length + column], faded = ![null, row].includes(this.kept.pin);
      pen.fillStyle = faded ? hue("--quiet") : inkOn(shade(placed(value, this.scale)));
      pen.fillText(brief(value), x(column) + this.wide / 2, y(row) + this.high / 2 + 1);
    }
  }

  mark(pen, x, y) {
    for (const [colour, thick] of [["--card", 5], ["--ink", 2]]) {
      pen.strokeStyle = hue(colour);
      pen.lineWidth = thick;
      pen.strokeRect(x, y, Math.max(this.wide, 3), Math.max(this.high, 3));
    }
  }

  nameRows(pen, r0, r1, y) {
    const step = Math.max(1, Math.ceil(this.letters / this.high));
    pen.textAlign = "right";
    for (let row = r0; row < r1; row++) {
      const chosen = [this.cursor?.row, this.lit?.row, this.kept.pin].includes(row);
      if (row % step && !chosen) continue;
      pen.font = font(this.letters, chosen);
      pen.fillStyle = hue(chosen ? "--accent" : "--ink");
      pen.fillText(cut(pen, this.rows[row], this.side - 2 * GAP + 1), this.side - GAP, y(row) + this.high / 2 + 0.5);
    }
  }

  nameColumns(pen, c0, c1, x) {
    const step = Math.max(1, Math.ceil((this.letters + 2) / this.wide));
    pen.textAlign = this.leaning ? "left" : "center";
    for (let column = c0; column < c1; column++) {
      const chosen = column === this.cursor?.column || column === this.lit?.column;
      if (column % step && !chosen) continue;
      pen.save();
      pen.font = font(this.letters, chosen);
      pen.fillStyle = hue(chosen ? "--accent" : "--ink");
      pen.translate(x(column) + this.wide / 2, this.head - GAP + (this.leaning ? 1 : -3));
      if (this.leaning) pen.rotate(-TURN);
      pen.fillText(cut(pen, this.columns[column], this.leaning ? LONGEST : this.wide), 0, 0);
      pen.restore();
    }
  }

  nameSides(pen) {
    const right = this.side - GAP, bottom = this.head - GAP;
    pen.font = font(11.5);
    pen.fillStyle = hue("--quiet");
    pen.textAlign = "right";
    if (this.columnName) pen.fillText(cut(pen, this.columnName, right), right, bottom - this.letters - 5);
    if (this.rowName) pen.fillText(cut(pen, this.rowName, right), right, bottom - 1);
  }

  cell(x, y) {
    const row = Math.floor((y + this.stage.top - this.head) / this.high);
    const column = Math.floor((x + this.stage.left - this.side) / this.wide);
    return { row: y >= this.head && row < this.rows.length ? row : null,
      column: x >= this.side && column < this.columns.length ? column : null };
  }

  point(x, y) {
    const at = this.cell(x, y);
    this.move(at.row === null || at.column === null ? null : at);
  }

  move(cursor) {
    if (cursor?.row === this.cursor?.row && cursor?.column === this.cursor?.column) return;
    this.cursor = cursor;
    this.draw();
    this.element.dispatchEvent(new CustomEvent("token", { bubbles: true, detail: cursor }));
  }

  tell() {
    const { cursor, kept } = this, pinned = kept.pin === null || !this.readRow ? "" : this.readRow(kept.pin);
    this.line.textContent = cursor ? this.read(cursor.row, cursor.column) : pinned;
  }

  press(x, y) {
    const { row } = this.cell(x, y);
    if (x >= this.side) this.point(x, y);
    else if (row !== null) this.pin(row);
  }

  pin(row) {
    if (!this.readRow) return;
    this.kept.pin = this.kept.pin === row ? null : row;
    this.draw();
  }

  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      Home: [0, -Infinity], End: [0, Infinity] }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      if (this.cursor) this.pin(this.cursor.row);
    } else if (event.key === "Escape") {
      this.kept.pin = this.cursor = null;
      this.draw();
    } else if (step) {
      const { cursor } = this, to = { row: this.kept.pin ?? 0, column: 0 };
      if (cursor) to.row = clamp(0, cursor.row + step[0], this.rows.length - 1);
      if (cursor) to.column = clamp(0, cursor.column + step[1], this.columns.length - 1);
      this.move(to);
      this.stage.reveal(this.side + to.column * this.wide, this.head + to.row * this.high, this.wide, this.high,
        this.side, this.head);
    } else return false;
    return true;
  }
}

// A button that fits all cells into sight, where they do not fit by themselves.
function wholeButton(heat) {
  if (Math.max(heat.rows.length, heat.columns.length) <= 40) return "";
  const whole = button("whole", () => {
    heat.kept.whole = !heat.kept.whole;
    pressed(whole, heat.kept.whole);
    heat.stage.lay();
  }, { "aria-pressed": Boolean(heat.kept.whole) });
  return make("div.controls", {}, whole);
}

drawers.grid = (panel, kept) => {
  const { rows, columns, numbers } = panel, values = array(panel.values), scale = ends(values, panel);
  const line = reading(numbers ? "" : "Point at a cell to read its value.");
  const masked = (row, column) => panel.causal && column > row;
  const value = (row, column) => (masked(row, column) ? "–" : said(values[row * columns.length + column]));
  const name = (what, one) => (what ? `${what} ` : "") + isolated(one);
  const heat = new Heat({ panel, values, scale, numbers, kept, line,
    label: `${panel.title || "A matrix"}, ${rows.length} × ${columns.length}.`,
    read: (row, column) =>
      `${name(panel.row_name, rows[row])}, ${name(panel.column_name, columns[column])}: `
        + (masked(row, column) ? "masked" : value(row, column)),
  });
  const bar = scaleBar(scale, panel.causal ?? false); // cells that hold their numbers need no line above them
  return make("div", {}, panel.formula && formulaOf(panel.formula), wholeButton(heat),
    numbers ? "" : line, heat.element, numbers ? make("div.below", {}, bar, line) : bar, asTable(rows, columns, value));
};

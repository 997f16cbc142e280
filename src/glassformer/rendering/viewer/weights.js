// Attention weights of every layer and head, out of their bytes when they are first asked for.

const MOST_KEPT = 40; // matrices that were asked for stay at hand, up to so many

class Weights {
  constructor(packed) {
    [this.layers, this.heads, this.rows, this.columns] = packed.shape;
    this.packed = packed;
    this.kept = packed.kept ?? null; // of each row only so many, the largest
    this.made = new Map();
  }

  open() {
    if (this.bytes) return;
    this.bytes = bytes(this.packed.u8);
    if (this.kept) this.places = new Uint16Array(bytes(this.packed.places).buffer);
  }

  // visit(row, column, weight as a byte) for what is known of one head.
  each(layer, head, visit) {
    this.open();
    const wide = this.kept ?? this.columns;
    let at = (layer * this.heads + head) * this.rows * wide;
    for (let row = 0; row < this.rows; row++)
      for (let i = 0; i < wide; i++, at++) visit(row, this.kept ? this.places[at] : i, this.bytes[at]);
  }

  // T×S, row by row; null: the mean over all layers, or heads.
  of(layer, head) {
    const key = `${layer},${head}`;
    if (this.made.has(key)) return this.made.get(key);
    const layers = layer === null ? upTo(this.layers) : [layer], heads = head === null ? upTo(this.heads) : [head];
    const out = new Float32Array(this.rows * this.columns), part = 1 / 255 / layers.length / heads.length;
    const add = (row, column, byte) => { out[row * this.columns + column] += byte * part; };
    for (const l of layers) for (const h of heads) this.each(l, h, add);
    if (this.made.size >= MOST_KEPT) this.made.delete(this.made.keys().next().value);
    this.made.set(key, out);
    return out;
  }

  said() {
    if (!this.kept) return "";
    return make("p.small", {},
      `Many weights: the page holds the ${this.kept} largest of each row and draws the others as 0.`);
  }
}

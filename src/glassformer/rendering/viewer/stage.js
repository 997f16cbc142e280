// A canvas as large as what can be seen of something larger, drawn anew when one scrolls: 512 × 512 cells cost no more
// than those in sight.

class Stage {
  // measure(width) → [width, height] of everything; paint(pen) draws what is in sight; point(x, y), leave(),
  // press(x, y) and key(event) hear the person, in pixels of the canvas.
  constructor({ label, kept, measure, paint, point, leave, press, key }) {
    Object.assign(this, { kept, measure, paint });
    this.canvas = make("canvas", { tabindex: "0", role: "application", "aria-label": label });
    this.sizer = make("div", {}, this.canvas);
    this.element = make("div.stage", {}, this.sizer);
    this.pen = this.canvas.getContext("2d");
    const heard = (what) => (event) => {
      const box = this.canvas.getBoundingClientRect();
      what(event.clientX - box.left, event.clientY - box.top);
    };
    this.canvas.addEventListener("pointermove", heard(point));
    this.canvas.addEventListener("pointerleave", leave);
    this.canvas.addEventListener("click", heard(press));
    this.canvas.addEventListener("keydown", (event) => { if (key(event)) event.preventDefault(); });
    this.element.addEventListener("scroll", () => {
      kept.scroll = [this.element.scrollLeft, this.element.scrollTop];
      this.draw();
    });
    sized(this.element, (width) => this.lay(width));
  }

  get left() { return onPaper ? 0 : this.element.scrollLeft; }
  get top() { return onPaper ? 0 : this.element.scrollTop; }

  lay(room = this.element.clientWidth) {
    if (!room) return;
    const first = this.room === undefined;
    this.room = room;
    const [wide, high] = this.measure(room);
    Object.assign(this.sizer.style, { width: `${wide}px`, height: `${high}px` });
    this.width = onPaper ? wide : Math.min(wide, this.element.clientWidth);
    this.height = onPaper ? high : Math.min(high, this.element.clientHeight);
    const sharp = onPaper ? 2 : Math.max(1, devicePixelRatio);
    this.canvas.width = Math.round(this.width * sharp);
    this.canvas.height = Math.round(this.height * sharp);
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${this.height}px` });
    this.sharp = sharp;
    if (first && this.kept.scroll) [this.element.scrollLeft, this.element.scrollTop] = this.kept.scroll;
    this.draw();
  }

  draw() {
    if (!this.width) return;
    const pen = this.pen;
    pen.setTransform(this.sharp, 0, 0, this.sharp, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.textBaseline = "middle";
    this.paint(pen);
  }

  // Scroll until the box can be seen, where `besideX` and `besideY` pixels are covered by labels.
  reveal(x, y, wide, high, besideX = 0, besideY = 0) {
    const { element } = this;
    if (x < element.scrollLeft + besideX) element.scrollLeft = x - besideX;
    else if (x + wide > element.scrollLeft + this.width) element.scrollLeft = x + wide - this.width;
    if (y < element.scrollTop + besideY) element.scrollTop = y - besideY;
    else if (y + high > element.scrollTop + this.height) element.scrollTop = y + high - this.height;
  }
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

function font(size, bold = false) {
  return `${bold ? "600 " : ""}${size}px ${FONT}`;
}

const ruler = document.createElement("canvas").getContext("2d");

// The widest of some texts, in pixels.
function widest(texts, size, most) {
  ruler.font = font(size, true);
  return Math.min(most, texts.reduce((width, text) => Math.max(width, ruler.measureText(text).width), 0));
}

// As much of a text as there is room for.
function cut(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && pen.measureText(letters.join("") + "…").width > room) letters.pop();
  return letters.join("") + "…";
}

// What is drawn goes no further than a box.
function clipped(pen, x, y, wide, high, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, wide, high);
  pen.clip();
  draw();
  pen.restore();
}

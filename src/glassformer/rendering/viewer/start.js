// Frames, and the page itself: views as tabs, each drawn when it is first looked at.

const PAUSE = 700; // milliseconds from frame to frame

drawers.frames = (panel, kept) => {
  const last = panel.frames.length - 1, stand = make("div"), moment = make("output.keep", { "aria-live": "polite" });
  kept.at = Math.min(kept.at ?? 0, last);
  kept.panels ??= [];
  let timer = null;
  const show = (at) => {
    kept.at = at;
    slider.value = at;
    slider.setAttribute("aria-valuetext", panel.labels[at]);
    moment.textContent = `${panel.name} ${panel.labels[at]}`;
    stand.style.minHeight = `${stand.offsetHeight}px`; // the page does not jump while panels change
    stand.replaceChildren(...panel.frames[at].map((one, place) => panelOf(one, (kept.panels[place] ??= {}))));
    if (stand.isConnected) forget();
  };
  const play = () => {
    if (kept.at === last) show(0);
    timer = setInterval(() => {
      if (stand.isConnected) show(kept.at + 1);
      if (!stand.isConnected || kept.at === last) stop();
    }, PAUSE);
    player.textContent = "pause";
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    player.textContent = "play";
  };
  const player = button("play", () => (timer ? stop() : play()));
  const slider = make("input", { type: "range", min: 0, max: last, step: 1, value: kept.at,
    "aria-label": panel.name, oninput: () => { stop(); show(Number(slider.value)); } });
  show(kept.at);
  return make("div", {}, make("div.controls.moments", {}, player, slider, moment), stand);
};

const TOOLLESS = ["words", "frames"]; // words copy themselves, frames hold panels that do

function panelOf(panel, kept) {
  const section = make(`section.panel.of-${panel.kind}`, { "aria-label": panel.title || panel.kind });
  const title = panel.title && make("hgroup", {}, panel.takeaway ? make("p.what", {}, panel.title) : "",
    make("h3", {}, panel.takeaway || panel.title));
  const note = panel.note && make("p.note", {}, panel.note);
  const inner = drawers[panel.kind](panel, kept);
  if (panel.folded) furnish(section, {}, make("details.fold", {}, make("summary", {}, title), inner, note));
  else furnish(section, {}, title, inner, note);
  if (!TOOLLESS.includes(panel.kind)) section.append(tools(panel, section));
  return section;
}

const CONTENTS_FROM = 7; // panels with a title: of fewer one sees what there is

// The titles of a long view's panels, as links to them; one that is folded opens.
function contents(panels, sections) {
  const titled = upTo(panels.length).filter((at) => panels[at].title);
  if (titled.length < CONTENTS_FROM) return "";
  const go = (section) => (event) => {
    event.preventDefault();
    section.querySelector("details.fold")?.setAttribute("open", "");
    furnish(section, { tabindex: "-1" }).focus({ preventScroll: true });
    section.scrollIntoView();
  };
  return make("nav.contents", { "aria-label": "contents" }, make("ul", {}, ...titled.map((at) =>
    make("li", {}, make("a", { href: "#", onclick: go(sections[at]) }, panels[at].title)))));
}

// On paper nothing scrolls: what is too wide is made smaller.
function fitPaper() {
  document.querySelectorAll(".wide, details > div").forEach((box) => {
    box.style.zoom = "";
    const wide = onPaper ? (box.firstElementChild?.offsetWidth ?? 0) : 0;
    if (wide > PAPER) box.style.zoom = PAPER / wide;
  });
}

function start() {
  mixColours();
  const { title, views } = JSON.parse(document.getElementById("data").textContent), several = views.length > 1;
  const sections = views.map((view, at) => make("section.view",
    several ? { role: "tabpanel", id: `view-${at}`, "aria-label": view.title, hidden: true } : {}));
  const draw = (view, at) => {
    if (sections[at].childElementCount) return;
    const panels = view.panels.map((panel) => panelOf(panel, {}));
    furnish(sections[at], {}, several || view.title !== title ? make("h2", {}, view.title) : "",
      view.note && make("p.lede", {}, view.note), contents(view.panels, panels), ...panels);
  };
  const open = (at) => {
    draw(views[at], at);
    sections.forEach((section, i) => { section.hidden = i !== at; });
    tabs.forEach((tab, i) => furnish(tab, { "aria-selected": i === at, tabindex: i === at ? 0 : -1 }));
  };
  const tabs = !several ? [] : views.map((view, at) => button(view.title, () => open(at), {
    role: "tab", "aria-controls": `view-${at}`, onkeydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], to = (at + step + views.length) % views.length;
      if (!step) return;
      open(to);
      tabs[to].focus();
    } }));
  if (several)
    document.querySelector("header").append(make("nav", { role: "tablist", "aria-label": "views" }, ...tabs));
  document.querySelector("main").append(...sections);
  if (views.length) open(0);
  dark.addEventListener("change", repaint);
  if (parent !== window) { // a frame in a notebook or in the documentation is made as high as the page
    const tell = () => parent.postMessage({ glassformerHeight: document.body.offsetHeight }, "*");
    tell(); // out of sight, nothing is observed
    new ResizeObserver(tell).observe(document.body);
    addEventListener("message", ({ data }) => data === "glassformerHeight" && tell()); // asked by who came later
  }
  // For paper everything is drawn, in light colours and as wide as a page.
  const turn = (paper) => {
    if (paper === onPaper) return; // a printer is told of in two ways
    onPaper = paper;
    document.documentElement.classList.toggle("paper", paper);
    if (paper) views.forEach(draw);
    document.querySelectorAll(paper ? "details.fold:not([open])" : "details.fold.unfolded").forEach((fold) => {
      fold.open = paper;
      fold.classList.toggle("unfolded", paper);
    });
    repaint();
    fitPaper();
  };
  const printer = matchMedia("print");
  printer.addEventListener("change", () => turn(printer.matches));
  addEventListener("beforeprint", () => turn(true));
  addEventListener("afterprint", () => turn(false));
}

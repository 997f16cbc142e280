// Frames, and the page itself: views as tabs, each drawn when it is first looked at.

const PAUSE = 700; // milliseconds from frame to frame

drawers.frames = (panel, kept) => {
  kept.at = Math.min(kept.at ?? 0, panel.frames.length - 1);
  kept.panels ??= [];
  const stand = make("div"), said = make("output", { "aria-live": "polite" });
  const slider = make("input", { type: "range", min: 0, max: panel.frames.length - 1, step: 1, value: kept.at,
    "aria-label": panel.name, oninput: () => { stop(); show(Number(slider.value)); } });
  const button = make("button", { type: "button", onclick: () => (timer ? stop() : play()) }, "play");
  let timer = null;
  const show = (at) => {
    kept.at = at;
    slider.value = at;
    slider.setAttribute("aria-valuetext", panel.labels[at]);
    said.textContent = `${panel.name} ${panel.labels[at]}`;
    stand.style.minHeight = `${stand.offsetHeight}px`; // the page does not jump while panels change
    stand.replaceChildren(...panel.frames[at].map((one, place) => drawn(one, (kept.panels[place] ??= {}))));
    if (stand.isConnected) forget();
  };
  const play = () => {
    if (kept.at === panel.frames.length - 1) show(0);
    timer = setInterval(() => {
      if (!stand.isConnected) stop();
      else show(kept.at + 1);
      if (kept.at === panel.frames.length - 1) stop();
    }, PAUSE);
    button.textContent = "pause";
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "play";
  };
  show(kept.at);
  return make("div", {}, make("div.controls.moments", {}, button, slider, furnish(said, { class: "keep" }, [])), stand);
};

function drawn(panel, kept) {
  const title = panel.title ? make("h3", {}, panel.title) : "", note = panel.note ? make("p.note", {}, panel.note) : "";
  return make(`section.panel.of-${panel.kind}`, { "aria-label": panel.title || panel.kind }, title,
    drawers[panel.kind](panel, kept), note);
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
  const { title, views } = JSON.parse(document.getElementById("data").textContent);
  const main = document.querySelector("main"), tabs = make("nav", { role: "tablist", "aria-label": "views" });
  const sections = views.map((view, at) => make("section.view",
    views.length > 1 ? { role: "tabpanel", id: `view-${at}`, "aria-label": view.title, hidden: true } : {}));
  const draw = (at) => {
    const view = views[at];
    if (sections[at].childElementCount) return;
    sections[at].append(...(views.length > 1 || view.title !== title ? [make("h2", {}, view.title)] : []),
      ...(view.note ? [make("p.lede", {}, view.note)] : []), ...view.panels.map((panel) => drawn(panel, {})));
  };
  const buttons = views.length < 2 ? [] : views
    .map((view, at) => make("button", { type: "button", role: "tab", "aria-controls": `view-${at}`,
    onclick: () => open(at), onkeydown: (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) open((at + step + views.length) % views.length, true);
  } }, view.title));
  const open = (at, focus = false) => {
    draw(at);
    sections.forEach((section, i) => { section.hidden = i !== at; });
    buttons.forEach((button, i) => furnish(button,
      { "aria-selected": String(i === at), tabindex: i === at ? "0" : "-1" }, []));
    if (focus) buttons[at].focus();
  };
  if (buttons.length) document.querySelector("header").append(tabs);
  tabs.append(...buttons);
  main.append(...sections);
  if (views.length) open(0);
  dark.addEventListener("change", repaint);
  // For paper everything is drawn, in light colours and as wide as a page.
  const turn = (paper) => {
    onPaper = paper;
    document.body.classList.toggle("paper", paper);
    if (paper) views.forEach((_, at) => draw(at));
    repaint();
    fitPaper();
  };
  print.addEventListener("change", () => turn(print.matches));
  addEventListener("beforeprint", () => turn(true));
  addEventListener("afterprint", () => turn(false));
}

start();

// Fit a page in a notebook's output: as high as the page, at most 6000 pixels, and as light or dark as what is around it.
// The page sends its height. Where scripts do not run, the frame stays as it is.
window.glassformerFrames ??= (() => {
  const fit = (frame, height) => {
    let around = frame.parentElement, ground = [];
    while (around && !ground.length) {
      const parts = getComputedStyle(around).backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [];
      if (parts.length === 3 || parts[3] > 0) ground = parts;
      around = around.parentElement;
    }
    if (ground.length) frame.style.colorScheme = ground[0] + ground[1] + ground[2] < 384 ? "dark" : "light";
    if (height) frame.style.height = `${Math.min(height, 6000)}px`;
  };
  addEventListener("message", (event) => {
    const height = event.data?.glassformerHeight;
    for (const frame of height ? document.querySelectorAll("iframe.glassformer") : [])
      if (frame.contentWindow === event.source) fit(frame, height);
  });
  for (const frame of document.querySelectorAll("iframe.glassformer"))
    frame.contentWindow?.postMessage("glassformerHeight", "*");
  return true;
})();

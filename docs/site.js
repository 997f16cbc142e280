// A panel tells how high it is; its frame follows.
addEventListener("message", ({ source, data }) => {
  if (typeof data?.glassformerHeight !== "number") return;
  for (const frame of document.querySelectorAll("figure.look iframe"))
    if (frame.contentWindow === source) frame.style.height = `${Math.min(data.glassformerHeight, 960)}px`;
});
for (const frame of document.querySelectorAll("figure.look iframe")) frame.contentWindow.postMessage("glassformerHeight", "*");

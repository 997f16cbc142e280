// How pages ask the server: with the key, which is asked for once and kept for this tab.
import { make } from "/page/viewer.js";

const KEY = "glassformer-key";

/** The answer to a GET, or with a body to a POST, as JSON; an Error with the server's one line. */
export async function ask(path, body = null, { signal = null } = {}) {
  for (;;) {
    const headers = {}, key = sessionStorage.getItem(KEY);
    if (key) headers.authorization = `Bearer ${key}`;
    if (body !== null) headers["content-type"] = "application/json";
    const response = await fetch(path, { headers, signal, cache: "no-store",
      ...(body === null ? {} : { method: "POST", body: JSON.stringify(body) }) });
    if (response.status === 401) {
      await askForKey(Boolean(key));
      continue;
    }
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error?.message ?? `the server answered ${response.status}`);
    return answer;
  }
}

let asking = null;

/** A dialog, one at a time, however many requests wait for it. */
function askForKey(wrong) {
  asking ??= new Promise((resolve) => {
    const input = make("input", { type: "password", autocomplete: "off", required: true });
    const told = wrong ? "That key was not right. The key of this server:" : "The key of this server:";
    const close = () => {
      sessionStorage.setItem(KEY, input.value);
      dialog.remove();
      asking = null;
      resolve();
    };
    const dialog = make("dialog.key", { oncancel: (event) => event.preventDefault(), onclose: close },
      make("form", { method: "dialog" }, make("label", {}, told, input), make("button", {}, "Go on")));
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
  return asking;
}

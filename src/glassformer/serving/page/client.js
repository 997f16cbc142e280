// How pages ask the server: with the key, which is asked for once and kept for this tab.
"use strict";

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
    const dialog = document.createElement("dialog");
    const form = document.createElement("form");
    form.method = "dialog";
    const label = document.createElement("label");
    label.textContent = wrong ? "That key was not right. The key of this server:" : "The key of this server:";
    const input = document.createElement("input");
    input.type = "password";
    input.autocomplete = "off";
    input.required = true;
    const button = document.createElement("button");
    button.textContent = "Go on";
    label.append(input);
    form.append(label, button);
    dialog.append(form);
    dialog.className = "key";
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, input.value);
      dialog.remove();
      asking = null;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
  return asking;
}

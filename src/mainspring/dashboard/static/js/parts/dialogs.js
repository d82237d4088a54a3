/** Dialogs, fields and toasts. */

import { post } from "../api.js";
import { h, render } from "../view.js";
import { button } from "./pieces.js";

/**
  * Show a dialog. `draw(values, redraw)` returns the fields, `act(values)` does the work; if it throws, the error is
  * shown and the dialog stays open. Resolves to the result of `act`, or undefined if the dialog was cancelled.
 */
export function ask({ title, draw, act, label, grave = false, wide = false, values = {} }) {
  const dialog = document.createElement("dialog");
  if (!wide) dialog.className = "narrow";
  dialog.setAttribute("aria-label", title);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let wrong = null;
    let busy = false;

    async function submit(event) {
      event.preventDefault();
      busy = true;
      wrong = null;
      redraw();
      try {
        const done = await act(values);
        close(done ?? true);
      } catch (error) {
        wrong = error;
        busy = false;
        redraw();
      }
    }

    function close(answer) {
      dialog.close();
      dialog.remove();
      resolve(answer);
    }

    function redraw() {
      const fields = draw ? draw(values, redraw) : null;
      const buttons = h(
        "menu",
        null,
        button("Cancel", () => close(undefined), { kind: "quiet" }),
        button(busy ? "…" : label, null, { kind: `main-act ${grave ? "grave" : ""}`, type: "submit", disabled: busy }),
      );
      const error = wrong && h("p", { class: "wrong", role: "alert" }, wrong.message);
      render(dialog, h("form", { onsubmit: submit, novalidate: true }, h("h2", null, title), fields, error, buttons));
    }

    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(undefined);
    });
    redraw();
    dialog.showModal();
  });
}

/** Ask for confirmation. */
export function confirmed(title, text, label, act, { grave = false } = {}) {
  return ask({ title, draw: () => h("p", { class: "soft" }, text), label, act, grave });
}

/** Ask for confirmation and a reason, which `act(reason)` gets. */
export function confirmedWithReason(title, text, label, act, { grave = false } = {}) {
  const values = { reason: "" };
  const draw = () => [
    h("p", { class: "soft" }, text),
    field(values, "reason", "Reason", { placeholder: "for the audit log" }),
  ];
  return ask({ title, draw, label, act: () => act(values.reason), grave, values });
}

/** A text field; its value is kept in `values[name]`. */
export function field(values, name, label, { hint, redraw, ...attributes } = {}) {
  const oninput = (event) => {
    values[name] = event.target.value;
    redraw?.();
  };
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    h("input", { value: values[name] ?? "", oninput, autocomplete: "off", ...attributes }),
    hint && h("small", null, hint),
  );
}

/** A selection; `words` are labels of choices. */
export function select(values, name, label, choices, redraw, words = {}) {
  const onchange = (event) => {
    values[name] = event.target.value;
    redraw?.();
  };
  const options = choices.map((each) => h("option", { value: each, selected: values[name] === each }, words[each] ?? each));
  return h("label", { class: "field" }, h("span", null, label), h("select", { onchange }, options));
}

const toasts = document.createElement("div");
toasts.className = "toasts";
toasts.setAttribute("role", "status");
let shown = [];
let number = 0;

/** Show a toast. An error stays until it is dismissed. */
export function toast(text, { grave = false } = {}) {
  if (!toasts.isConnected) document.body.append(toasts);
  const entry = { text, grave, key: (number += 1) };
  shown = [...shown.slice(-3), entry];
  if (!grave) setTimeout(() => dismiss(entry), 5000);
  draw();
}

/** Do something, and report the result: `success(answer)` is the text on success. */
export async function attempt(act, success) {
  try {
    const answer = await act();
    if (success) toast(typeof success === "function" ? success(answer) : success);
    return answer;
  } catch (refusal) {
    toast(refusal.message, { grave: true });
    return undefined;
  }
}

/** The button that resumes what is paused or drained. */
export function resumeButton(path, body, name, kind = "small") {
  return button("Resume", () => attempt(() => post(path, body), `${name} is resumed.`), { kind: `${kind} main-act` });
}

/** A tick box with its label; `changed(ticked)` is called when it is clicked. */
export function tickBox(label, ticked, changed) {
  const onchange = ({ target }) => changed(target.checked);
  return h("label", { class: "row" }, h("input", { type: "checkbox", checked: ticked, onchange }), label);
}

function dismiss(entry) {
  shown = shown.filter((each) => each !== entry);
  draw();
}

function draw() {
  render(
    toasts,
    shown.map((entry) =>
      h(
        "div",
        { key: entry.key, class: `toast ${entry.grave ? "grave" : ""}` },
        h("span", null, entry.text),
        button("×", () => dismiss(entry), { kind: "quiet small", title: "Dismiss" }),
      ),
    ),
  );
}

/** A JSON field that reports errors and their position while the user types. */

import { h } from "../view.js";

/** The field; its value is kept in `values[name]`. `blank` describes an empty value, if allowed. */
export function editor(values, name, label, { hint, blank, redraw }) {
  const oninput = ({ target }) => {
    values[name] = target.value;
    redraw();
  };
  const text = values[name] ?? "";
  const empty = text.trim() === "";
  const wrong = empty && blank ? null : fault(text);
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    h("textarea", { value: text, oninput, spellcheck: "false", "aria-invalid": wrong ? "true" : undefined }),
    h("small", { class: wrong ? "wrong" : "", role: "status" }, wrong ? `Not JSON: ${wrong}.` : empty ? blank : hint),
  );
}

/** The text, if it is JSON; it is sent as text, because numbers beyond 2^53 would lose digits here. */
export function checked(text, what = "payload") {
  const wrong = fault(text);
  if (wrong) throw new Error(`${what === "headers" ? "The headers are" : `The ${what} is`} not JSON: ${wrong}`);
  return text;
}

/** The error and its position; null if there is none. */
function fault(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    // Engines report the position in their own formats, or not at all.
    const { at, missing } = place(text);
    if (missing === null) return error.message;
    const before = text.slice(0, at).split("\n");
    return `line ${before.length}, column ${before.at(-1).length + 1}: ${missing}`;
  }
}

const SPACE = /[ \t\r\n]*/y;
const PLAIN =
  /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;

/** Where it stops being JSON, and what is expected; `missing` is null if it is valid. */
function place(text) {
  let at = 0;
  const skip = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return Boolean(found);
  };
  const next = () => (skip(SPACE), text[at]);
  const inside = [];
  let wanted = "value";
  for (;;) {
    const sign = next();
    if (wanted === "value" && (sign === "{" || sign === "[")) {
      at += 1;
      inside.push(sign === "{" ? "}" : "]");
      wanted = next() === inside.at(-1) ? "end" : sign === "{" ? "name" : "value";
    } else if (wanted === "value") {
      if (!skip(PLAIN)) return { at, missing: sign === '"' ? "unterminated text" : "a value is missing" };
      wanted = "end";
    } else if (wanted === "name") {
      if (sign !== '"' || !skip(PLAIN)) return { at, missing: 'a name in "…" is missing' };
      if (next() !== ":") return { at, missing: "a : is missing" };
      at += 1;
      wanted = "value";
    } else if (!inside.length) {
      return { at, missing: sign === undefined ? null : "unexpected text after the end" };
    } else if (sign === inside.at(-1)) {
      at += 1;
      inside.pop();
    } else if (sign === ",") {
      at += 1;
      wanted = inside.at(-1) === "}" ? "name" : "value";
    } else {
      return { at, missing: `a , or ${inside.at(-1)} is missing` };
    }
  }
}

/** `<ms-tree>`: JSON as a collapsible tree. Its `.value` is the text: numbers are shown with their exact digits. */

import { h, render } from "../view.js";

const MASK = "•••";
const OPEN_TO = 3;
const MOST = 200;

/** A number that JavaScript would round. */
class Exact {
  constructor(source) {
    this.source = source;
  }
}

class Tree extends HTMLElement {
  set value(text) {
    render(this, branch(null, JSON.parse(text, exact), 0));
  }
}

customElements.define("ms-tree", Tree);

function exact(_, value, context) {
  const rounded = typeof value === "number" && context?.source && String(value) !== context.source;
  return rounded ? new Exact(context.source) : value;
}

function branch(name, value, depth) {
  const label = name !== null && h("span", { class: "name" }, `${name}: `);
  if (Array.isArray(value))
    return folded(
      label,
      value.map((each, at) => [at, each]),
      "[",
      "]",
      depth,
    );
  if (value !== null && typeof value === "object" && !(value instanceof Exact))
    return folded(label, Object.entries(value), "{", "}", depth);
  return [label, leaf(value)];
}

function folded(label, entries, open, close, depth) {
  if (!entries.length) return [label, h("span", { class: "word" }, open + close)];
  const list = entries.slice(0, MOST).map(([name, value]) => h("li", null, branch(name, value, depth + 1)));
  const left = entries.length - MOST;
  const rest = left > 0 && h("li", { class: "faint" }, `… and ${left} more`);
  const size = entries.length === 1 ? "1 entry" : `${entries.length} entries`;
  const title = h("summary", null, label, `${open} `, h("span", { class: "faint" }, size), ` ${close}`);
  return h("details", { open: depth < OPEN_TO }, title, h("ul", null, list, rest));
}

function leaf(value) {
  if (value === MASK) return h("span", { class: "mask", title: "Masked by the redaction rules" }, MASK);
  if (typeof value === "string") return h("span", { class: "string" }, JSON.stringify(value));
  if (value instanceof Exact) return h("span", { class: "number" }, value.source);
  if (typeof value === "number") return h("span", { class: "number" }, String(value));
  return h("span", { class: "word" }, String(value));
}

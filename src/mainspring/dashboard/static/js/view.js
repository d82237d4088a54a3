/**
  * A virtual DOM: `h` describes a node, `render` updates the document to match.
 *
  * Text only ever becomes text nodes and attributes, so nothing that is stored can become markup. Unchanged nodes are
  * left alone: focus, selection and scrolling survive a page that is redrawn every second.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Describe a node. Attributes as in HTML, `on…` for listeners, `.name` for properties, `key` to match it later. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flatten(children), key: props?.key };
}

/** Draw these nodes into the container, changing only what differs from the last time. */
export function render(container, ...pieces) {
  const next = flatten(pieces);
  patchChildren(container, container.drawn ?? [], next, container.namespaceURI === SVG);
  container.drawn = next;
}

function flatten(children, into = []) {
  for (const child of children) {
    if (Array.isArray(child)) flatten(child, into);
    else if (child === null || child === undefined || child === false || child === true) continue;
    else if (typeof child === "object") into.push(child);
    else into.push({ text: String(child) });
  }
  return into;
}

function patchChildren(parent, before, after, svg) {
  const keyed = new Map();
  const plain = [];
  for (const old of before) {
    // Of two nodes with the same key only one is matched; the other is removed.
    if (old.key === undefined || keyed.has(old.key)) plain.push(old);
    else keyed.set(old.key, old);
  }
  let place = 0;
  for (const piece of after) {
    const old = match(piece, keyed, plain);
    if (old) patch(old, piece, svg);
    else create(piece, svg);
    const current = parent.childNodes[place] ?? null;
    if (current !== piece.node) parent.insertBefore(piece.node, current);
    place += 1;
  }
  for (const old of [...keyed.values(), ...plain]) old.node.remove();
}

function match(piece, keyed, plain) {
  if (piece.key !== undefined) {
    const old = keyed.get(piece.key);
    if (old?.tag !== piece.tag) return null;
    keyed.delete(piece.key);
    return old;
  }
  const index = plain.findIndex((old) => old.tag === piece.tag);
  return index < 0 ? null : plain.splice(index, 1)[0];
}

function create(piece, svg) {
  if (piece.tag === undefined) {
    piece.node = document.createTextNode(piece.text);
    return;
  }
  const inside = svg || piece.tag === "svg";
  piece.node = inside ? document.createElementNS(SVG, piece.tag) : document.createElement(piece.tag);
  for (const [name, value] of Object.entries(piece.props)) set(piece.node, name, value, undefined);
  patchChildren(piece.node, [], piece.children, inside);
}

function patch(old, piece, svg) {
  piece.node = old.node;
  if (piece.tag === undefined) {
    if (piece.text !== old.text) piece.node.data = piece.text;
    return;
  }
  for (const name of Object.keys(old.props)) {
    if (!(name in piece.props)) set(piece.node, name, undefined, old.props[name]);
  }
  for (const [name, value] of Object.entries(piece.props)) set(piece.node, name, value, old.props[name]);
  patchChildren(piece.node, old.children, piece.children, svg || piece.tag === "svg");
}

function set(node, name, value, before) {
  if (name === "key") return;
  if (name === "value" || name === "checked") {
    // Compared with the document, not with the last drawing: the user may have typed or ticked since.
    if (node[name] !== (value ?? "")) node[name] = value ?? "";
    return;
  }
  if (value === before) return;
  if (name.startsWith("on")) {
    listen(node, name.slice(2), value);
  } else if (name.startsWith(".")) {
    node[name.slice(1)] = value;
  } else if (value === undefined || value === null || value === false) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

function listen(node, event, listener) {
  node.listeners ??= {};
  if (!(event in node.listeners)) node.addEventListener(event, (happened) => node.listeners[event]?.(happened));
  node.listeners[event] = listener;
}

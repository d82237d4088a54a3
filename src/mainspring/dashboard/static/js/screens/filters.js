/** The filter fields above the list of messages, each a part of the URL. */

import { h } from "../view.js";
import { button } from "../parts/pieces.js";
import { KINDS, local } from "./deliveries.js";

const NAMES = [
  ["group", "Consumer"],
  ["topic", "Topic"],
  ["key", "Key"],
  ["correlation_id", "Correlation id"],
];
/** A search reveals what it matches: only callers that see everything may search payloads and errors. */
const TEXTS = [
  ["error", "Error contains"],
  ["text", "Payload contains"],
];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The filter fields of the messages screen. */
export function filters(screen) {
  const { filter } = screen;
  const groups = (screen.context.overview?.groups ?? []).map((group) => h("option", { value: group.group }));
  const filtered = Object.entries(filter).some(([name, value]) => value && name !== "state");
  const redraw = (name, value) => {
    screen[name] = value;
    screen.draw();
  };
  return h(
    "div",
    { class: `filters ${screen.wide ? "open" : ""}` },
    [...NAMES, ...(screen.operates ? TEXTS : [])].map(([name, label]) => typed(screen, name, label)),
    kinds(screen),
    found(screen),
    screen.timed() && [time(screen, "since", "from"), time(screen, "until", "to")],
    !screen.timed() && button("Any time", () => redraw("choosing", true), { kind: "quiet" }),
    h("datalist", { id: "groups" }, groups),
    filter.fingerprint && h("span", { class: "state failed" }, "one cause only"),
    filter.worker && h("span", { class: "state running" }, `held by ${filter.worker}`),
    filtered && button("Clear", () => screen.clear(), { kind: "quiet" }),
    !screen.follows && button("Search again", () => screen.search(), { kind: "quiet" }),
    button(screen.wide ? "Less" : "More filters", () => redraw("wide", !screen.wide), { kind: "quiet more" }),
  );
}

function typed(screen, name, label) {
  return h("input", {
    key: name,
    type: "search",
    placeholder: label,
    "aria-label": label,
    value: screen.filter[name] ?? "",
    list: name === "group" ? "groups" : undefined,
    "data-search": name === "group",
    oninput: (event) => screen.set(name, event.target.value),
  });
}

function kinds(screen) {
  const onchange = ({ target }) => screen.set("kind", target.value);
  const option = (value, text) => h("option", { value, selected: (screen.filter.kind ?? "") === value }, text);
  return h(
    "select",
    { key: "kind", "aria-label": "Kind", onchange },
    option("", "Any kind"),
    KINDS.map((kind) => option(kind, kind)),
  );
}

/** A field for an id, which opens the message. */
function found(screen) {
  const oninput = ({ target }) => {
    const id = target.value.trim().toLowerCase();
    if (ID.test(id)) screen.go(`messages/${id}`);
  };
  return h("input", { key: "id", type: "search", placeholder: "Message id", "aria-label": "Message id", oninput });
}

function time(screen, name, label) {
  const onchange = ({ target }) => screen.set(name, target.value && new Date(target.value).toISOString());
  const field = h("input", { type: "datetime-local", value: local(screen.filter[name]), onchange });
  return h("label", { key: name, class: "row faint" }, label, field);
}

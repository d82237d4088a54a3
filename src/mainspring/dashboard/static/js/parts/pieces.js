/** Parts that several screens share. */

import { h } from "../view.js";
import { brief, count } from "../format.js";
import { href } from "../router.js";
import "./when.js";

/** A state as a coloured label. */
export function state(word, title) {
  return h("span", { class: `state ${word}`, title }, word);
}

/** A relative time; `as` "age", "clock" or "countdown" for other formats. */
export function when(at, as) {
  return h("ms-when", { at, as, class: "nowrap" });
}

/** When an operator stopped something, and why: "3 min ago by ann: incident 7". */
export function stopped(at, by, reason, as) {
  return [when(at, as), ` by ${by}${reason ? `: ${reason}` : ""}`];
}

/** The header of a screen. */
export function head(title, sub, ...actions) {
  return h(
    "div",
    { class: "head" },
    h("h1", null, title),
    sub && h("span", { class: "sub" }, sub),
    h("div", { class: "actions" }, actions),
  );
}

/** A box with a heading. */
export function card(title, aside, ...body) {
  return h(
    "section",
    { class: "card" },
    title && h("header", null, h("h2", null, title), aside && h("div", { class: "aside" }, aside)),
    body,
  );
}

/** The text for an empty list, and how to fill it. */
export function empty(title, text, example) {
  return h("div", { class: "empty" }, h("strong", null, title), h("p", null, text), example && h("pre", null, example));
}

/** The same in a box, for a screen without rows. */
export function emptyCard(...texts) {
  return h("div", { class: "card" }, empty(...texts));
}

/** A button; `kind` is "main-act", "grave", "quiet" or "small", or several. */
export function button(label, onclick, { kind = "", title, disabled, type = "button" } = {}) {
  return h("button", { class: `button ${kind}`, type, onclick, title, disabled }, label);
}

const phone = matchMedia("(width <= 640px)");

/** A name that may wrap after its dots and dashes on a phone. */
export function name(text) {
  return phone.matches ? breakable(text) : text;
}

/** A name that may wrap after its dots and dashes: for tables without a column that takes all room. */
export function breakable(text) {
  return String(text)
    .split(/(?<=[.,:_/-])(?=\D)/)
    .map((part, index) => [index > 0 && h("wbr"), part]);
}

/** A message's id, shortened, as a link. */
export function messageLink(id, text) {
  return h("a", { href: href(`messages/${id}`), class: "mono nowrap", title: id }, name(text ?? brief(id)));
}

const ID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi;

/** Text in which the ids of messages are links. */
export function linked(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(ID)) {
    parts.push(text.slice(end, found.index), messageLink(found[0]));
    end = found.index + found[0].length;
  }
  return [...parts, text.slice(end)];
}

/** A consumer's name, as a link. */
export function consumerLink(group, text = name(group)) {
  return h("a", { href: href("consumers/view", { group }) }, text);
}

/** The counts of a consumer's running deliveries, and of lapsed ones that wait to be taken over. */
export function running(row) {
  const lapsed = () => h("a", { href: href("messages", { group: row.group, state: "lapsed" }) }, `${count(row.lapsed)} lapsed`);
  return [count(row.running), row.lapsed > 0 && h("span", { class: "under" }, lapsed())];
}

/** A failed attempt as a list item, with its `consumer` if given. */
export function failed(run, consumer) {
  return h(
    "li",
    { key: run.id },
    state(run.status),
    h(
      "div",
      { class: "grow" },
      h("div", { class: "cut error", title: run.error }, run.error),
      h(
        "span",
        { class: "faint" },
        consumer && [consumer, " · "],
        "attempt ",
        run.attempt,
        " · ",
        messageLink(run.message_id),
      ),
    ),
    h("span", { class: "faint" }, when(run.finished_at)),
  );
}

/**
  * A table. `columns` are `{name, right, spare, roomy, fill, cell(row)}`, or false for one that is not shown; `open(row)` makes
  * rows links, `filter` makes columns with `by(row)` sortable.
 */
export function table(given, rows, { key, open, chosen, at, filter } = {}) {
  const columns = given.filter(Boolean);
  const kind = (column) =>
    ["right", "spare", "roomy", "fill", "tight"]
      .map((each) => column[each] && each)
      .filter(Boolean)
      .join(" ");
  const names = columns.map((column) =>
    h(
      "th",
      { class: kind(column), scope: "col", "aria-sort": filter?.order(column) },
      filter ? filter.head(column) : (column.head ?? column.name),
    ),
  );
  const body = rows.map((row) => {
    const marks = [open && "link", chosen?.(row) && "chosen", at?.(row) && "at"].filter(Boolean).join(" ");
    const onclick = open && ((event) => event.target.closest("a, button, input, label, summary") || open(row, event));
    return h(
      "tr",
      { key: key(row), class: marks, onclick },
      columns.map((column) => h("td", { class: kind(column) }, column.cell(row))),
    );
  });
  return h(
    "div",
    { class: "scroll" },
    h("table", null, h("thead", null, h("tr", null, names)), h("tbody", null, body)),
  );
}

/** A list of names and values. */
export function facts(...pairs) {
  const given = pairs.filter((pair) => pair && pair[1] !== null && pair[1] !== undefined && pair[1] !== "");
  return h(
    "dl",
    { class: "facts" },
    given.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/** Text whose `quoted` parts are commands and names. */
export function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}

/** An error message. */
export function trouble(refusal) {
  return h("div", { class: "note grave", role: "alert" }, refusal.message);
}

/** The bars of recent outcomes, the latest at the right; each is a link to its message. */
export function strip(runs, length = 20) {
  const missing = Math.max(0, length - runs.length);
  const shown = [...runs].slice(0, length).reverse();
  return h(
    "span",
    { class: "strip" },
    Array.from({ length: missing }, () => h("i", null)),
    shown.map((run) =>
      h("a", {
        key: run.id,
        class: run.status,
        href: href(`messages/${run.message_id}`),
        title: `${run.status}, ${run.finished_at}`,
        "aria-label": run.status,
      }),
    ),
  );
}

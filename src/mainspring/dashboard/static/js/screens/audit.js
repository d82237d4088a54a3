/** The audit log. */

import { h } from "../view.js";
import { clock, count } from "../format.js";
import { breakable, emptyCard, head, linked, table, when } from "../parts/pieces.js";
import { href } from "../router.js";
import { pagedScreen } from "./screen.js";

const COLUMNS = [
  {
    name: "When",
    by: (row) => row.id,
    cell: (row) => [
      h("span", { class: "wide-only nowrap" }, clock(row.at)),
      h("span", { class: "under" }, when(row.at)),
    ],
  },
  { name: "Who", spare: true, by: (row) => row.by, cell: (row) => h("span", { class: "nowrap" }, row.by) },
  {
    name: "What",
    by: (row) => row.action,
    cell: (row) => [h("b", { class: "nowrap" }, row.action), h("span", { class: "narrow-only faint" }, row.by)],
  },
  {
    name: "On",
    by: (row) => row.subject,
    cell: (row) => [subject(row), row.detail && h("span", { class: "narrow-only faint" }, detail(row))],
  },
  {
    name: "Detail",
    fill: true,
    spare: true,
    cell: (row) => h("div", { class: "cut soft", title: row.detail }, detail(row)),
  },
];
/** The screens of what an action was done to, by the beginning of its name. */
const SCREENS = [
  [/^schedule (?!delete)/, (schedule) => href("schedules/view", { name: schedule })],
  [/^(pause|resume)$/, (group) => href("consumers/view", { group })],
  [/^(drain|worker)/, (worker) => href("workers", { find: worker })],
  [/^inbox/, (id) => href("inbox", { message_id: id })],
  [/^lease/, (lease) => href("leases", { find: lease })],
];

function subject(row) {
  const screen = SCREENS.find(([action]) => action.test(row.action));
  if (screen) return h("a", { href: screen[1](row.subject) }, breakable(row.subject));
  return ids(row, row.subject);
}

function detail(row) {
  return ids(row, row.detail);
}

/** Ids in the inbox are those of senders, not of messages. */
function ids(row, text) {
  return row.action.startsWith("inbox") ? text : linked(text);
}

/** Shows the audit log, newest first. */
export function audit(place, { query }) {
  const order = { key: (row) => row.id, behind: (row, last) => row.id < last.id };
  return pagedScreen(place, "audit", query, order, draw);
}

function draw({ rows, all, filter, more }) {
  const title = head("Audit", null, (rows.length > 0 || filter.find) && filter.box("Find by operator or subject"));
  if (!rows.length && all) {
    const text = filter.find
      ? "No entry contains this text."
      : "Every login, pause, revival, edit and release is recorded here with its operator, and every rejected request.";
    return [
      title,
      emptyCard(filter.find ? "No matches." : "No entries yet.", text),
    ];
  }
  return [
    title,
    rows.length > 0 &&
      h("div", { class: "card" }, table(COLUMNS, filter.sorted(rows, COLUMNS), { key: (row) => row.id, filter })),
    !all &&
      h(
        "p",
        { class: "row gap-above" },
        h("span", { class: "faint" }, filter.sort && `Sorted among the newest ${count(rows.length)}. `),
        more,
      ),
  ];
}

/** The audit log. */

import { get } from "../api.js";
import { h } from "../view.js";
import { clock, count } from "../format.js";
import { attempt } from "../parts/dialogs.js";
import { button, emptyCard, head, table, when } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { Pages } from "../pages.js";
import { watchScreen } from "./screen.js";

const LIMIT = 100;
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
    cell: (row) => [row.subject, row.detail && h("span", { class: "narrow-only faint" }, row.detail)],
  },
  {
    name: "Detail",
    fill: true,
    spare: true,
    cell: (row) => h("div", { class: "cut soft", title: row.detail }, row.detail),
  },
];

/** Shows the audit log, newest first. */
export function audit(place, { query }) {
  const own = { pages: pages(), cursor: undefined };
  const request = () => ({ find: own.filter.find, limit: LIMIT });
  own.filter = new RowFilter("audit", query, {
    redraw: () => screen.redraw(),
    search() {
      Object.assign(own, { pages: pages(), cursor: undefined });
      screen.ask(request());
    },
  });
  const screen = watchScreen(place, "audit", request(), (found) => draw(found, own, request, () => screen.redraw()));
  return screen;
}

function pages() {
  return new Pages(
    (row) => row.id,
    (row, last) => row.id < last.id,
  );
}

function draw(found, own, request, redraw) {
  const { filter } = own;
  const title = head("Audit", null, (found.rows.length > 0 || filter.find) && filter.box("Find by operator, action or subject"));
  own.pages.fresh(found.rows);
  const rows = own.pages.all();
  const cursor = own.cursor === undefined ? found.cursor : own.cursor;
  if (!rows.length && cursor === null) {
    const text = filter.find
      ? "No entry contains this text."
      : "Every login, pause, revival, edit and release is recorded here with its operator, and every rejected request.";
    return [
      title,
      emptyCard(filter.find ? "No matches." : "No entries yet.", text),
    ];
  }
  const load = async () => {
    const ask = () => attempt(() => get("audit", { ...request(), cursor }));
    const page = await own.pages.more(ask, (answer) => answer.rows);
    if (page) own.cursor = page.cursor;
    redraw();
  };
  const partly = filter.sort && cursor !== null;
  return [
    title,
    rows.length > 0 &&
      h("div", { class: "card" }, table(COLUMNS, filter.sorted(rows, COLUMNS), { key: (row) => row.id, filter })),
    cursor !== null &&
      h(
        "p",
        { class: "row gap-above" },
        h("span", { class: "faint" }, partly && `Sorted among the newest ${count(rows.length)}. `),
        button("More", load, { disabled: own.pages.loading }),
      ),
  ];
}

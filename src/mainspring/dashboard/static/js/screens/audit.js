/** Who did what, and when. */

import { get } from "../api.js";
import { h } from "../view.js";
import { clock } from "../format.js";
import { attempt } from "../parts/dialogs.js";
import { button, empty, head, table, when } from "../parts/pieces.js";
import { Pages } from "../pages.js";
import { watching } from "./watching.js";

const LIMIT = 100;

/** Shows what operators did, newest first. */
export function audit(place) {
  const own = {
    pages: new Pages(
      (row) => row.id,
      (row) => row.id,
    ),
    more: undefined,
  };
  const screen = watching(place, "audit", { limit: LIMIT }, (found) => draw(found, own, () => screen.redraw()));
  return screen;
}

function draw({ rows }, own, redraw) {
  if (!rows.length) {
    const text = "Every pause, revival, edit and release is written down here with who did it.";
    return [head("Audit"), h("div", { class: "card" }, empty("Nobody has changed anything yet.", text))];
  }
  own.pages.fresh(rows);
  const columns = [
    { name: "When", cell: (row) => [clock(row.at), h("span", { class: "under" }, when(row.at))] },
    { name: "Who", cell: (row) => h("span", { class: "nowrap" }, row.by) },
    { name: "What", cell: (row) => h("b", { class: "nowrap" }, row.action) },
    { name: "On", cell: (row) => row.subject },
    {
      name: "Detail",
      fill: true,
      spare: true,
      cell: (row) => h("div", { class: "cut soft", title: row.detail }, row.detail),
    },
  ];
  const load = async () => {
    const ask = (last) => attempt(() => get("audit", { before: last.id, limit: LIMIT }));
    const page = await own.pages.more(ask, (answer) => answer.rows);
    if (page) own.more = page.rows.length === LIMIT;
    redraw();
  };
  return [
    head("Audit"),
    h("div", { class: "card" }, table(columns, own.pages.all(), { key: (row) => row.id })),
    (own.more ?? rows.length === LIMIT) && h("p", { class: "gap-above" }, button("More", load)),
  ];
}

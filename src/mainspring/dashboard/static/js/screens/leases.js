/** Leases and their holders. */

import { get, post } from "../api.js";
import { h } from "../view.js";
import { count } from "../format.js";
import { attempt, confirmedWithReason } from "../parts/dialogs.js";
import { button, empty, emptyCard, head, name, state, table, when } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { Pages } from "../pages.js";
import { watchScreen } from "./screen.js";

const LIMIT = 100;

/** Shows leases that are held, or were recently, by name. */
export function leases(place, { query, context }) {
  const own = { pages: pages(), cursor: undefined };
  const request = () => ({ find: own.filter.find, limit: LIMIT });
  own.filter = new RowFilter("leases", query, {
    redraw: () => screen.redraw(),
    search() {
      Object.assign(own, { pages: pages(), cursor: undefined });
      screen.ask(request());
    },
  });
  const screen = watchScreen(place, "leases", request(), (found) => draw(found, own, request, context, () => screen.redraw()));
  return screen;
}

function pages() {
  return new Pages(
    (row) => row.name,
    (row, last) => row.name > last.name,
  );
}

function draw(found, own, request, context, redraw) {
  const { filter } = own;
  own.pages.fresh(found.rows);
  const rows = own.pages.all();
  const cursor = own.cursor === undefined ? found.cursor : own.cursor;
  if (!rows.length && cursor === null && !filter.find) {
    return [
      head("Leases"),
      emptyCard(
        "No leases held now or recently.",
        "A lease is held by one process at a time, with an epoch that fences its writes.",
        'async with app.leases.hold("nightly-import", "30s") as lease:\n    ...',
      ),
    ];
  }
  const load = async () => {
    const page = await own.pages.more(
      () => attempt(() => get("leases", { ...request(), cursor })),
      (answer) => answer.rows,
    );
    if (page) own.cursor = page.cursor;
    redraw();
  };
  const held = count(rows.filter((row) => row.state === "held").length);
  const columns = columnsOf(context, own.pages, redraw);
  return [
    head(
      "Leases",
      cursor === null ? `${held} held` : `${held} held among the first ${count(rows.length)}`,
      filter.box("Find a lease or its holder"),
    ),
    h(
      "div",
      { class: "card" },
      rows.length
        ? table(columns, rows, { key: (row) => row.name })
        : empty("No matches.", "Shorten the search text."),
    ),
    cursor !== null &&
      h(
        "p",
        { class: "row gap-above" },
        h("span", { class: "faint" }, `The first ${count(rows.length)} by name; there are more.`),
        button("More", load, { disabled: own.pages.loading }),
      ),
  ];
}

function columnsOf(context, pages, redraw) {
  return [
    { name: "Lease", cell: (row) => h("b", null, name(row.name)) },
    { name: "", cell: (row) => state(row.state) },
    { name: "Holder", spare: true, cell: (row) => row.holder ?? "–" },
    { name: "Epoch", right: true, spare: true, cell: (row) => count(row.epoch) },
    {
      name: "Held",
      right: true,
      spare: true,
      cell: (row) => (row.state === "held" ? when(row.acquired_at, "age") : "–"),
    },
    { name: "Renewed", right: true, spare: true, cell: (row) => when(row.renewed_at) },
    { name: "Expires", right: true, cell: (row) => when(row.expires_at) },
    context.me.role === "operator" && {
      name: "",
      right: true,
      cell: (row) =>
        row.state === "held" && button("Release", () => release(row, pages, redraw), { kind: "small grave" }),
    },
  ].filter(Boolean);
}

async function release(row, pages, redraw) {
  await confirmedWithReason(
    `Release ${row.name}?`,
    `${row.holder} continues until its next renewal; until then only the epoch fences its writes.`,
    "Release",
    (reason) => post("leases/release", { name: row.name, reason }),
    { grave: true },
  );
  // Only the first page is live: reload this one among the others.
  const found = await attempt(() => get("leases", { find: row.name, limit: 200 }));
  const fresh = found?.rows.find((each) => each.name === row.name);
  if (fresh) pages.older = pages.older.map((each) => (each.name === row.name ? fresh : each));
  redraw();
}

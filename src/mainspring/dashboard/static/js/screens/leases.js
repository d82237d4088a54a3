/** Leases and their holders. */

import { get, post } from "../api.js";
import { h } from "../view.js";
import { count } from "../format.js";
import { ask, attempt, field } from "../parts/dialogs.js";
import { button, empty, head, name, state, table, when } from "../parts/pieces.js";
import { Sieve } from "../parts/sieve.js";
import { Pages } from "../pages.js";
import { watching } from "./watching.js";

const LIMIT = 100;

/** Shows leases that are held, or were recently, by name. */
export function leases(place, { query, house }) {
  const own = { pages: pages(), cursor: undefined };
  const asked = () => ({ find: own.sieve.find, limit: LIMIT });
  own.sieve = new Sieve("leases", query, {
    redraw: () => screen.redraw(),
    search() {
      Object.assign(own, { pages: pages(), cursor: undefined });
      screen.ask(asked());
    },
  });
  const screen = watching(place, "leases", asked(), (found) => draw(found, own, asked, house, () => screen.redraw()));
  return screen;
}

function pages() {
  return new Pages(
    (row) => row.name,
    (row, last) => row.name > last.name,
  );
}

function draw(found, own, asked, house, redraw) {
  const { sieve } = own;
  own.pages.fresh(found.rows);
  const rows = own.pages.all();
  const cursor = own.cursor === undefined ? found.cursor : own.cursor;
  if (!rows.length && cursor === null && !sieve.find) {
    return [
      head("Leases"),
      h(
        "div",
        { class: "card" },
        empty(
          "No leases held now or recently.",
          "A lease is held by one process at a time, with an epoch that fences its writes.",
          'async with app.leases.hold("nightly-import", "30s") as lease:\n    ...',
        ),
      ),
    ];
  }
  const load = async () => {
    const page = await own.pages.more(
      () => attempt(() => get("leases", { ...asked(), cursor })),
      (answer) => answer.rows,
    );
    if (page) own.cursor = page.cursor;
    redraw();
  };
  const held = count(rows.filter((row) => row.state === "held").length);
  const columns = columnsOf(house, own.pages, redraw);
  return [
    head(
      "Leases",
      cursor === null ? `${held} held` : `${held} held among the first ${count(rows.length)}`,
      sieve.box("Find a lease or its holder"),
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

function columnsOf(house, pages, redraw) {
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
    house.me.role === "operator" && {
      name: "",
      right: true,
      cell: (row) =>
        row.state === "held" && button("Release", () => release(row, pages, redraw), { kind: "small grave" }),
    },
  ].filter(Boolean);
}

async function release(row, pages, redraw) {
  const values = { reason: "" };
  await ask({
    title: `Release ${row.name}?`,
    label: "Release",
    grave: true,
    values,
    draw: () => [
      h(
        "p",
        { class: "soft" },
        `${row.holder} continues until its next renewal; until then only the epoch fences its writes.`,
      ),
      field(values, "reason", "Reason", { placeholder: "for the audit log" }),
    ],
    act: () => post("leases/release", { name: row.name, reason: values.reason }),
  });
  // Only the first page is live: reload this one among the others.
  const found = await attempt(() => get("leases", { find: row.name, limit: 200 }));
  const fresh = found?.rows.find((each) => each.name === row.name);
  if (fresh) pages.older = pages.older.map((each) => (each.name === row.name ? fresh : each));
  redraw();
}

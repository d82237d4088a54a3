/** Leases and their holders. */

import { get, post } from "../api.js";
import { h } from "../view.js";
import { count } from "../format.js";
import { attempt, confirmedWithReason } from "../parts/dialogs.js";
import { button, empty, emptyCard, head, name, state, table, when } from "../parts/pieces.js";
import { pagedScreen } from "./screen.js";

/** Shows leases that are held, or were recently, by name. */
export function leases(place, { query, context }) {
  const order = { key: (row) => row.name, behind: (row, last) => row.name > last.name };
  return pagedScreen(place, "leases", query, order, (found) => draw(found, context));
}

function draw({ rows, all, filter, more, replace }, context) {
  if (!rows.length && all && !filter.find) {
    return [
      head("Leases"),
      emptyCard(
        "No leases held now or recently.",
        "A lease is held by one process at a time, with an epoch that fences its writes.",
        'async with app.leases.hold("nightly-import", "30s") as lease:\n    ...',
      ),
    ];
  }
  const held = count(rows.filter((row) => row.state === "held").length);
  return [
    head(
      "Leases",
      all ? `${held} held` : `${held} held among the first ${count(rows.length)}`,
      filter.box("Find a lease or its holder"),
    ),
    h(
      "div",
      { class: "card" },
      rows.length
        ? table(columnsOf(context, replace), rows, { key: (row) => row.name })
        : empty("No matches.", "Shorten the search text."),
    ),
    !all &&
      h(
        "p",
        { class: "row gap-above" },
        h("span", { class: "faint" }, `The first ${count(rows.length)} by name; there are more.`),
        more,
      ),
  ];
}

function columnsOf(context, replace) {
  return [
    { name: "Lease", cell: (row) => h("b", null, name(row.name)) },
    { name: "", cell: (row) => state(row.state) },
    {
      name: "Holder",
      fill: true,
      cell: (row) => h("div", { class: "cut", title: row.holder ?? "" }, row.holder ?? "–"),
    },
    { name: "Epoch", right: true, spare: true, cell: (row) => count(row.epoch) },
    {
      name: "Held",
      right: true,
      spare: true,
      cell: (row) => (row.state === "held" ? when(row.acquired_at, "age") : "–"),
    },
    { name: "Renewed", right: true, roomy: true, cell: (row) => when(row.renewed_at) },
    { name: "Expires", right: true, cell: (row) => when(row.expires_at) },
    context.operates && {
      name: "",
      right: true,
      cell: (row) =>
        row.state === "held" && button("Release", () => release(row, replace), { kind: "small grave" }),
    },
  ];
}

async function release(row, replace) {
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
  if (fresh) replace(fresh);
}

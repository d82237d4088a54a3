/** Who holds what. */

import { post } from "../api.js";
import { h } from "../view.js";
import { count } from "../format.js";
import { ask, field } from "../parts/dialogs.js";
import { button, empty, head, state, table, when } from "../parts/pieces.js";
import { watching } from "./watching.js";

const LIMIT = 200;

/** Shows the leases that are held, or were lately. */
export function leases(place, { house }) {
  return watching(place, "leases", { limit: LIMIT }, (found) => draw(found, house));
}

function draw({ rows }, house) {
  if (!rows.length) {
    return [
      head("Leases"),
      h(
        "div",
        { class: "card" },
        empty(
          "No lease is held, or was lately.",
          "A lease lets one process at a time do something, with an epoch that fences what it writes.",
          'async with app.leases.hold("nightly-import", "30s") as lease:\n    ...',
        ),
      ),
    ];
  }
  const columns = [
    { name: "Lease", cell: (row) => h("b", null, row.name) },
    { name: "", cell: (row) => state(row.state) },
    { name: "Holder", cell: (row) => row.holder ?? "–" },
    { name: "Epoch", right: true, cell: (row) => count(row.epoch) },
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
      cell: (row) => row.state === "held" && button("Release", () => release(row), { kind: "small grave" }),
    },
  ].filter(Boolean);
  return [
    head("Leases", `${rows.filter((row) => row.state === "held").length} held`),
    h("div", { class: "card" }, table(columns, rows, { key: (row) => row.name })),
    rows.length === LIMIT && h("p", { class: "faint gap-above" }, `Only the first ${LIMIT} are shown.`),
  ];
}

function release(row) {
  const values = { reason: "" };
  return ask({
    title: `Release ${row.name}?`,
    label: "Release",
    grave: true,
    values,
    draw: () => [
      h(
        "p",
        { class: "soft" },
        `${row.holder} goes on until its next renewal tells it; only the epoch fences what it writes until then.`,
      ),
      field(values, "reason", "Reason", { placeholder: "for the audit log" }),
    ],
    act: () => post("leases/release", { name: row.name, reason: values.reason }),
  });
}

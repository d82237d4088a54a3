/** Consumers and their load. */

import { inFleet, post } from "../api.js";
import { h } from "../view.js";
import { capped, rate, span } from "../format.js";
import { confirmedWithReason, resumeButton } from "../parts/dialogs.js";
import { breakable, button, consumerLink, emptyCard, head, running, state, table, when } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { href } from "../router.js";
import { watchScreen } from "./screen.js";

const CAP = 10_000;

/** Shows every declared consumer. */
export function consumers(place, { query, context, go }) {
  const filter = new RowFilter("consumers", query, { redraw: () => screen.redraw() });
  const screen = watchScreen(place, "consumers", null, (found) => draw(found, context, filter, go));
  return screen;
}

function draw({ rows }, context, filter, go) {
  if (!rows.length) {
    return [
      head("Consumers"),
      emptyCard(
        "No consumers declared yet.",
        "A worker declares its consumers when it starts.",
        '@app.consumer("orders.placed")\nasync def send_receipt(order: dict) -> None: ...\n\n$ mainspring worker shop:app',
      ),
    ];
  }
  const columns = columnsOf(context);
  const found = filter.found(rows, (row) => `${row.group} ${row.patterns.join(" ")} ${words(row)} ${row.app}`);
  return [
    head(
      "Consumers",
      found.length < rows.length ? `${found.length} of ${rows.length}` : `${rows.length} declared`,
      filter.box("Find a consumer"),
    ),
    h(
      "div",
      { class: "card" },
      table(columns, filter.sorted(found, columns), {
        key: (row) => row.group,
        open: (row) => go("consumers/view", { group: row.group }),
        filter,
      }),
    ),
    !found.length && h("p", { class: "faint gap-above" }, "No matches."),
  ];
}

function columnsOf(context) {
  return [
    {
      name: "Consumer",
      by: (row) => row.group,
      cell: (row) => [
        h("b", null, consumerLink(row.group, breakable(row.group))),
        " ",
        marks(row),
        h("span", { class: "under" }, row.patterns.length ? breakable(row.patterns.join(", ")) : "only direct sends"),
      ],
    },
    {
      name: "Ready",
      right: true,
      by: (row) => row.ready,
      cell: (row) => [
        row.ready
          ? h("a", { href: href("messages", { group: row.group, state: "ready" }) }, capped(row.ready, CAP))
          : "0",
        row.oldest_ready_at && h("span", { class: "under" }, when(row.oldest_ready_at, "age")),
      ],
    },
    {
      name: "Running",
      right: true,
      spare: true,
      by: (row) => row.running + row.lapsed,
      cell: running,
    },
    { name: "Done", right: true, by: (row) => row.rate, cell: (row) => `${rate(row.rate)}/s` },
    {
      name: "Failing",
      right: true,
      spare: true,
      by: (row) => row.failing,
      cell: (row) => h("span", { class: row.failing ? "wrong" : "" }, `${rate(row.failing)}/s`),
    },
    { name: "Run p95", right: true, spare: true, by: (row) => row.run.p95, cell: (row) => span(row.run.p95) },
    {
      name: "Dead",
      right: true,
      by: (row) => row.dead,
      cell: (row) =>
        row.dead ? h("a", { class: "wrong", href: href("dead", { group: row.group }) }, capped(row.dead, CAP)) : "–",
    },
    context.operates && { name: "", right: true, spare: true, cell: (row) => steer(row) },
  ];
}

function words(row) {
  return [row.paused_at && "paused", row.tripped && "tripped", unserved(row) && "unserved"]
    .filter(Boolean)
    .join(" ");
}

/** Whether a worker should serve it and none does: in a fleet one does while there is something to do. */
export function unserved(row) {
  return !row.workers.length && !inFleet;
}

/** Unusual states of a consumer, as labels. */
export function marks(row) {
  return [
    row.paused_at && state("paused", `${row.paused_by ?? ""} ${row.pause_reason ?? ""}`),
    row.tripped && state("tripped", "Its breaker is open after too many failures"),
    unserved(row) && state("unserved", "No worker serves it"),
  ];
}

/** The button that pauses or resumes a consumer. */
export function steer(row, kind = "small") {
  if (row.paused_at) return resumeButton("consumers/resume", { group: row.group }, row.group, kind);
  return button("Pause", () => pause(row.group), { kind });
}

function pause(group) {
  return confirmedWithReason(
    `Pause ${group}?`,
    "Its messages wait, across restarts and deploys, until it is resumed. Running handlers finish.",
    "Pause",
    (reason) => post("consumers/pause", { group, reason }),
  );
}

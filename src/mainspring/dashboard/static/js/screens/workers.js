/** Workers and what they have in hand. */

import { post } from "../api.js";
import { h } from "../view.js";
import { count } from "../format.js";
import { confirmedWithReason, resumeButton } from "../parts/dialogs.js";
import { button, card, consumerLink, emptyCard, head, messageLink, name, state, stopped, table, when } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { href } from "../router.js";
import { watchScreen } from "./screen.js";

/** The maximum number of a worker's deliveries that the server lists. */
const LISTED = 50;

/** Shows every worker that has reported. */
export function workers(place, { query, context }) {
  const filter = new RowFilter("workers", query, { redraw: () => screen.redraw() });
  const screen = watchScreen(place, "workers", null, (found) => draw(found, context, filter));
  return screen;
}

function draw({ rows }, context, filter) {
  if (!rows.length) {
    return [
      head("Workers"),
      emptyCard(
        "No workers have reported.",
        "A worker appears here within a second of its start.",
        "mainspring worker shop:app",
      ),
    ];
  }
  const columns = columnsOf(context);
  const found = filter.found(rows, (row) => `${row.name} ${row.host} ${row.pid} ${row.groups.join(" ")} ${words(row)}`);
  const shown = filter.sorted(found, columns);
  const alive = rows.filter((row) => row.alive).length;
  const silent = rows.length - alive;
  return [
    head("Workers", `${alive} alive${silent ? `, ${silent} silent` : ""}`, filter.box("Find a worker")),
    h("div", { class: "card gap-below" }, table(columns, shown, { key: seat, filter })),
    found.length ? hands(shown) : h("p", { class: "faint" }, "No matches."),
  ];
}

function columnsOf(context) {
  return [
    {
      name: "Worker",
      by: (row) => row.name,
      cell: (row) => [h("b", null, name(row.name)), h("span", { class: "under nowrap" }, `${row.host}, process ${row.pid}`)],
    },
    {
      name: "State",
      by: words,
      cell: (row) => [
        h("span", { class: "row" }, marks(row)),
        row.draining_at && h("span", { class: "under" }, stopped(row.draining_at, row.drained_by ?? "an operator", row.drain_reason)),
      ],
    },
    {
      name: "Serves",
      fill: true,
      spare: true,
      cell: (row) => h("div", { class: "cut soft", title: row.groups.join(", ") }, row.groups.join(", ") || "nothing"),
    },
    { name: "In hand", right: true, by: held, cell: (row) => (held(row) ? holding(row) : "0") },
    { name: "Heard", right: true, spare: true, by: (row) => Date.parse(row.beat_at), cell: (row) => when(row.beat_at) },
    {
      name: "Up",
      right: true,
      spare: true,
      by: (row) => -Date.parse(row.started_at),
      cell: (row) => [when(row.started_at, "age"), h("span", { class: "under" }, `bell: ${row.bell}`)],
    },
    context.operates && { name: "", right: true, cell: (row) => row.alive && steer(row) },
  ];
}

/** The listed deliveries are current; the last reported count is seconds old, and is used if not all are listed. */
function held(row) {
  return row.hands.length < LISTED ? row.hands.length : Math.max(row.in_hand, row.hands.length);
}

function holding(row) {
  return h("a", { href: href("messages", { state: "live", worker: row.name }) }, count(held(row)));
}

function words(row) {
  return [row.alive ? "alive" : "silent", row.draining_at && draining(row), row.tripped.length && "tripped"]
    .filter(Boolean)
    .join(" ");
}

function draining(row) {
  return row.drains ? "draining" : "drain asked";
}

function drainNote(row) {
  return row.drains ? undefined : "It has not confirmed yet; workers of older releases never confirm";
}

/** Its name, prefixed by its app: workers of other apps may have the same name. */
function seat(row) {
  return `${row.app}/${row.name}`;
}

function marks(row) {
  return [
    state(row.alive ? "alive" : "silent", row.alive ? undefined : "It has not reported for a while"),
    row.draining_at && state(draining(row), drainNote(row)),
    row.tripped.length > 0 && state("tripped", row.tripped.join(", ")),
  ];
}

function steer(row) {
  if (row.draining_at) return resumeButton("workers/resume", { name: seat(row) }, row.name);
  return button("Drain", () => drain(row), { kind: "small" });
}

/** The deliveries that all of them have in hand. */
function hands(rows) {
  const total = rows.reduce((sum, row) => sum + held(row), 0);
  const listed = rows.flatMap((row) => row.hands);
  const columns = [
    { name: "State", cell: (each) => state(each.state) },
    {
      name: "Topic",
      cell: (each) => [
        messageLink(each.message_id, each.topic),
        each.progress && h("span", { class: "narrow-only faint" }, each.progress),
      ],
    },
    { name: "Consumer", cell: (each) => consumerLink(each.group) },
    { name: "Worker", spare: true, cell: (each) => each.held_by },
    { name: "Attempt", right: true, spare: true, cell: (each) => each.attempt },
    {
      name: "",
      fill: true,
      cell: (each) => h("div", { class: "cut soft" }, each.cancel_asked ? "asked to stop" : each.progress),
    },
  ];
  const more = total - listed.length;
  return card(
    total ? `${count(total)} in hand` : "Nothing in hand",
    null,
    listed.length > 0 && table(columns, listed, { key: (each) => `${each.message_id}-${each.group}` }),
    more > 0 && h("p", { class: "body faint" }, `and ${count(more)} more: follow the numbers above.`),
  );
}

function drain(row) {
  return confirmedWithReason(
    `Drain ${row.name}?`,
    "It claims no more deliveries and finishes what it has in hand. The process keeps running until it is stopped or resumed.",
    "Drain",
    (reason) => post("workers/drain", { name: seat(row), reason }),
  );
}

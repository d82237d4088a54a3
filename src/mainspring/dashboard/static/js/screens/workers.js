/** Who is at work, and at what. */

import { post } from "../api.js";
import { h } from "../view.js";
import { count } from "../format.js";
import { ask, attempt, field } from "../parts/dialogs.js";
import { button, card, empty, head, messageLink, state, when } from "../parts/pieces.js";
import { watching } from "./watching.js";

/** How many of what a worker holds the server lists. */
const LISTED = 50;

/** Shows every worker that has reported itself. */
export function workers(place, { house }) {
  return watching(place, "workers", null, (found) => draw(found, house));
}

function draw({ rows }, house) {
  if (!rows.length) {
    return [
      head("Workers"),
      h(
        "div",
        { class: "card" },
        empty(
          "No worker has reported itself.",
          "Start one, and it is here within a second.",
          "mainspring worker shop:app",
        ),
      ),
    ];
  }
  const alive = rows.filter((row) => row.alive).length;
  const silent = rows.length - alive;
  return [
    head("Workers", `${alive} alive${silent ? `, ${silent} silent` : ""}`),
    h(
      "div",
      { class: "stack" },
      rows.map((row) => worker(row, house)),
    ),
  ];
}

function worker(row, house) {
  const marks = [
    state(row.alive ? "alive" : "silent", row.alive ? undefined : "It has not reported itself for a while"),
    row.draining_at && state("draining", `by ${row.drained_by}`),
    row.tripped.length > 0 && state("tripped", row.tripped.join(", ")),
  ];
  const steer =
    house.me.role === "operator" &&
    row.alive &&
    (row.draining_at
      ? button(
          "Let it work",
          () => attempt(() => post("workers/resume", { name: row.name }), `${row.name} takes work again.`),
          { kind: "small main-act" },
        )
      : button("Drain", () => drain(row.name), { kind: "small" }));
  const hands = row.hands.map((each) =>
    h(
      "li",
      { key: `${each.message_id}-${each.group}` },
      state(each.lapsed ? "lapsed" : "running"),
      h(
        "div",
        { class: "grow cut" },
        messageLink(each.message_id, each.topic),
        h("span", { class: "faint" }, ` ${each.group}${each.attempt > 1 ? ` · attempt ${each.attempt}` : ""}`),
        each.progress && h("div", { class: "soft" }, each.progress),
      ),
      each.cancel_asked && h("span", { class: "faint" }, "asked to stop"),
    ),
  );
  // What it holds is seen at once; what it last reported is a few seconds old, and counts where not all are listed.
  const held = row.hands.length < LISTED ? row.hands.length : Math.max(row.in_hand, row.hands.length);
  return h(
    "div",
    { key: row.name },
    card(
      row.name,
      h("div", { class: "row" }, marks, steer),
      h(
        "div",
        { class: "body faint" },
        h(
          "div",
          { class: "row dotted" },
          h("span", null, `${row.host}, process ${row.pid}`),
          h("span", null, "up ", when(row.started_at, "age")),
          h("span", null, "heard ", when(row.beat_at)),
          h("span", null, `bell: ${row.bell}`),
        ),
        h("div", null, `serves ${row.groups.join(", ") || "nothing"}`),
      ),
      h("header", null, h("h2", null, held ? `${count(held)} in hand` : "Nothing in hand")),
      hands.length > 0 && h("ul", { class: "list" }, hands),
      held > hands.length && h("p", { class: "body faint" }, `and ${count(held - hands.length)} more`),
    ),
  );
}

function drain(name) {
  const values = { reason: "" };
  return ask({
    title: `Drain ${name}?`,
    label: "Drain",
    values,
    draw: () => [
      h(
        "p",
        { class: "soft" },
        "It takes no more work and finishes what it has. The process stays, so that nothing restarts it, until it is stopped or let work again.",
      ),
      field(values, "reason", "Reason", { placeholder: "for the audit log" }),
    ],
    act: () => post("workers/drain", { name, reason: values.reason }),
  });
}

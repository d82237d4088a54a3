/** Deliveries as rows. */

import { h } from "../view.js";
import { empty, messageLink, name, state, when } from "../parts/pieces.js";

/** The states to filter by, in the order of a delivery's life. */
export const STATES = [
  "any",
  "live",
  "ready",
  "scheduled",
  "running",
  "lapsed",
  "retrying",
  "done",
  "dead",
  "cancelled",
  "parked",
];

/** The kinds of messages, by how they came to be published. */
export const KINDS = ["immediate", "delayed", "recurring"];

/** States with another label. */
export const WORDS = { retrying: "will retry" };

/** The identity of a row. */
export function key(row) {
  return `${row.state === "done" || row.state === "cancelled" ? "run" : "seq"}-${row.seq}-${row.group}`;
}

/** The columns of a delivery. */
export const COLUMNS = [
  { name: "State", cell: (row) => state(row.state) },
  {
    name: "Topic",
    cell: (row) => [
      messageLink(row.message_id, row.topic),
      h("span", { class: "under nowrap" }, row.group ? name(row.group) : "no consumer yet"),
      h("span", { class: "narrow-only" }, row.error && h("span", { class: "error" }, row.error)),
    ],
  },
  {
    name: "Message",
    spare: true,
    cell: (row) => [
      messageLink(row.message_id),
      row.key && h("span", { class: "under cut key", title: `key ${row.key}` }, row.key),
    ],
  },
  { name: "Kind", spare: true, cell: (row) => h("span", { class: "soft" }, row.kind) },
  {
    name: "Payload",
    fill: true,
    cell: (row) => [
      row.preview && h("div", { class: "cut mono soft", title: row.preview }, row.preview),
      note(row),
    ],
  },
  { name: "Attempt", right: true, roomy: true, cell: (row) => row.attempt || "" },
  { name: "When", right: true, cell: instant },
];

function note(row) {
  if (row.error) return h("div", { class: "cut error", title: row.error }, row.error);
  if (row.progress) return h("div", { class: "cut soft", title: row.progress }, row.progress);
  if (row.attempt && (row.state === "scheduled" || row.state === "ready"))
    return h("div", { class: "cut faint" }, `attempt ${row.attempt} failed, to be retried`);
  if (row.cancel_asked) return h("div", { class: "cut faint" }, "asked to stop");
  const worker = row.held_by ?? row.node;
  return worker ? h("div", { class: "cut faint" }, worker) : "";
}

/** The relevant instant for its state. */
function instant(row) {
  if (row.state === "dead") return when(row.buried_at);
  if (row.finished_at) return when(row.finished_at);
  if (row.state === "scheduled" || row.state === "ready") return when(row.due_at);
  return when(row.published_at);
}

/** An instant in the format of a local time field. */
export function local(instant) {
  if (!instant) return "";
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The text for an empty list. */
export function nothing(filter) {
  if (Object.entries(filter).some(([name, value]) => value && name !== "state"))
    return empty("No matches.", "Remove a filter, or choose another state.");
  const texts = {
    any: ["No messages.", "What is published appears here, in every state.", 'await app.publish("orders.placed", {"order_id": 42})'],
    live: [
      "No waiting or running deliveries.",
      "A published message appears here at once.",
      'await app.publish("orders.placed", {"order_id": 42})',
    ],
    done: [
      "Nothing was handled lately.",
      "What was handled is listed for a day, with its consumer, time and worker; runs are kept longer if the option keep is 'all'.",
      'Mainspring(…, keep="all")',
    ],
    dead: [
      "No dead letters.",
      "Deliveries without attempts left are kept here, with every error, until they are revived or discarded.",
    ],
    retrying: [
      "No deliveries to retry.",
      "Failed deliveries with attempts left wait here for the next one.",
    ],
    parked: ["No parked messages.", "Messages on a topic without a consumer wait here for one."],
  };
  return empty(...(texts[filter.state] ?? [`No ${filter.state} deliveries.`, "Choose another state."]));
}

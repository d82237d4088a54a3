/** Deliveries as rows: what each of them says in its state. */

import { h } from "../view.js";
import { empty, messageLink, name, state, when } from "../parts/pieces.js";

/** What may be looked for, in the order of a delivery's life. */
export const STATES = ["live", "ready", "scheduled", "running", "lapsed", "retrying", "done", "dead", "cancelled", "parked"];

/** Those that people call otherwise. */
export const WORDS = { retrying: "will retry" };

/** What tells a row from its neighbours. */
export function key(row) {
  return `${row.state === "done" || row.state === "cancelled" ? "run" : "seq"}-${row.seq}-${row.group}`;
}

/** What is shown of a delivery. */
export const COLUMNS = [
  { name: "State", cell: (row) => state(row.state) },
  {
    name: "Topic",
    cell: (row) => [
      messageLink(row.message_id, row.topic),
      h("span", { class: "under" }, row.group ? name(row.group) : "no consumer yet"),
      h("span", { class: "narrow-only" }, row.error && h("span", { class: "error" }, row.error)),
    ],
  },
  { name: "Key", spare: true, cell: (row) => row.key ?? "" },
  { name: "Attempt", right: true, spare: true, cell: (row) => row.attempt || "" },
  { name: "", fill: true, cell: said },
  { name: "When", right: true, cell: instant },
];

function said(row) {
  if (row.error) return h("div", { class: "cut error", title: row.error }, row.error);
  if (row.progress) return h("div", { class: "cut soft", title: row.progress }, row.progress);
  if (row.attempt && (row.state === "scheduled" || row.state === "ready"))
    return h("span", { class: "faint" }, `attempt ${row.attempt} did not succeed, it is tried again`);
  if (row.cancel_asked) return h("span", { class: "faint" }, "asked to stop");
  return row.held_by ? h("div", { class: "cut faint" }, row.held_by) : "";
}

/** The instant that matters in its state. */
function instant(row) {
  if (row.state === "dead") return when(row.buried_at);
  if (row.state === "scheduled" || row.state === "ready") return when(row.due_at);
  return when(row.published_at);
}

/** An instant as a field for local time wants it. */
export function local(instant) {
  if (!instant) return "";
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** What to say where nothing is found. */
export function nothing(filter) {
  if (Object.entries(filter).some(([name, value]) => value && name !== "state"))
    return empty("Nothing matches.", "Take something out of the filter, or look at another state.");
  const texts = {
    live: [
      "Nothing waits and nothing runs.",
      "Publish something, and it is here at once.",
      'await app.publish("orders.placed", {"order_id": 42})',
    ],
    done: [
      "No finished run was kept.",
      "Successes are counted and not kept, unless a consumer or the app asks for it.",
      'Mainspring(…, keep="all")',
    ],
    dead: [
      "No dead letters.",
      "What fails for the last time waits here, with every error, until it is revived or discarded.",
    ],
    retrying: [
      "Nothing waits to be tried again.",
      "What has failed and has attempts left waits here for the next one, until it succeeds or is a dead letter.",
    ],
    parked: ["Nothing is parked.", "What is published to a topic that nobody consumes waits here for a consumer."],
  };
  return empty(...(texts[filter.state] ?? [`Nothing is ${filter.state}.`, "Look at another state."]));
}

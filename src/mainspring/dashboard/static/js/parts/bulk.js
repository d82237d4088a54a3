/** Bulk actions: started here, run on the server, and followed to their end. */

import { get, post } from "../api.js";
import { watch } from "../watch.js";
import { h } from "../view.js";
import { many } from "../format.js";
import { attempt, confirmed, toast } from "./dialogs.js";
import { button } from "./pieces.js";

/** The result of each action, as a participle. */
export const DONE = { revive: "revived", discard: "discarded", cancel: "cancelled", run_now: "due now" };
const DOING = { revive: "Reviving", discard: "Discarding", cancel: "Cancelling", run_now: "Making due" };
const ROUTES = { revive: "retry", run_now: "retry", cancel: "cancel", discard: "discard" };
const GRAVE = new Set(["discard", "cancel"]);
const QUESTIONS = {
  revive: ["Revive", "They become due at once, and their attempts are counted from zero."],
  discard: ["Discard", "They are permanently deleted, with their payloads. This cannot be undone."],
  cancel: ["Cancel", "Waiting deliveries are cancelled; running handlers are asked to stop."],
  run_now: ["Run now", "Scheduled and retrying deliveries become due at once."],
};

/** The actions on many deliveries, by their state. */
export const ACTIONS = {
  dead: ["revive", "discard"],
  scheduled: ["run_now", "cancel"],
  retrying: ["run_now", "cancel"],
  live: ["run_now", "cancel"],
  ready: ["cancel"],
  running: ["cancel"],
  lapsed: ["cancel"],
  parked: ["cancel"],
};

/** The texts of an action: its button, and its effect. */
export function question(action) {
  return QUESTIONS[action];
}

/** Apply the action to these, one by one, after confirmation; reports how many took effect. */
export async function each(action, rows) {
  const [label, text] = QUESTIONS[action];
  let done = 0;
  const all = async () => {
    for (const row of rows) {
      const answer = await post(`messages/${row.message_id}/${ROUTES[action]}`, row.group ? { group: row.group } : {});
      done += Object.values(answer).reduce((sum, count) => sum + count, 0);
    }
  };
  const title = `${label}: ${many(rows.length, "delivery", "deliveries")}?`;
  const agreed = await confirmed(title, text, label, all, { grave: GRAVE.has(action) });
  if (agreed) toast(`${many(done, "delivery", "deliveries")} ${DONE[action]}.`);
  return agreed;
}

/** Follows one bulk action; `redraw` is called on changes, `ended` when it has ended. */
export class Bulk {
  constructor(redraw, ended) {
    this.redraw = redraw;
    this.ended = ended;
    this.job = null;
    this.leave = () => this.unwatch?.();
  }

  /** Confirm, then start it: `what` describes the deliveries. */
  async start(action, filter, what) {
    const [label, text] = QUESTIONS[action];
    const found = await attempt(() => get("messages/count", filter));
    if (!found) return;
    const number = `${many(found.count, "delivery", "deliveries")}${found.more ? " or more" : ""}`;
    const begin = () => post("bulk", { action, filter });
    const title = `${label}: ${what}, ${number}?`;
    const job = await confirmed(title, text, label, begin, { grave: GRAVE.has(action) });
    if (job) this.follow(job);
  }

  /** Follow an action that was started before the page was loaded. */
  async resume() {
    const { rows } = await get("bulk").catch(() => ({ rows: [] }));
    const job = rows.find((row) => row.state === "running");
    if (job && !this.job) this.follow(job);
  }

  follow(job) {
    this.unwatch?.();
    this.job = job;
    this.redraw();
    this.unwatch = watch(`bulk/${job.id}`, null, {
      data: (fresh) => this.received(fresh),
      refused: (refusal) => toast(refusal.message, { grave: true }),
    });
  }

  received(job) {
    this.job = job;
    if (job.state !== "running") {
      this.unwatch?.();
      this.job = null;
      const text = `${many(job.done, "delivery", "deliveries")} ${DONE[job.action]}${job.state === "stopped" ? ", then stopped" : ""}.`;
      toast(job.state === "failed" ? `${text} Then it failed: ${job.error}` : text, { grave: job.state === "failed" });
      this.ended?.(job);
    }
    this.redraw();
  }

  /** Draw its progress. */
  view() {
    const { job } = this;
    if (!job) return null;
    return h(
      "div",
      { class: "card bulkbar", role: "status", key: "bulk" },
      h("span", null, `${DOING[job.action]} … ${many(job.done, "delivery", "deliveries")}`),
      h("div", { class: "progress grow unknown" }, h("i")),
      button("Stop", () => attempt(() => post(`bulk/${job.id}/stop`)), { kind: "small" }),
    );
  }
}

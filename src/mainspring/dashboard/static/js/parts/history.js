/** What was done to everything that matched: by whom, when, to how many, and how it ended, in whichever process. */

import { get } from "../api.js";
import { watch } from "../watch.js";
import { h } from "../view.js";
import { many } from "../format.js";
import { href } from "../router.js";
import { DONE } from "./bulk.js";
import { when } from "./pieces.js";
import { now } from "./when.js";

const SHOWN = 8;
/** How long one that goes on is followed, in milliseconds. */
const LONGEST = 3_600_000;

/** The latest bulk actions, from the audit. They are read once, and followed only while one of them goes on. */
export class History {
  constructor(redraw) {
    Object.assign(this, { redraw, rows: [], unwatch: null });
    this.look();
  }

  /** Read them anew: one has just begun or ended. */
  async look() {
    const found = await get("bulk/history", { limit: SHOWN }).catch(() => null);
    if (found) this.heard(found);
  }

  heard({ rows }) {
    this.rows = rows;
    // What was cut off with its process says for ever that it goes on.
    const going = rows.some((row) => row.state === "running" && now() - Date.parse(row.at) < LONGEST);
    if (going && !this.unwatch && !this.left)
      this.unwatch = watch("bulk/history", { limit: SHOWN }, { data: (found) => this.heard(found) });
    if (!going) this.rest();
    this.redraw();
  }

  rest() {
    this.unwatch?.();
    this.unwatch = null;
  }

  leave() {
    this.left = true;
    this.rest();
  }

  /** For the screen: folded, but for what goes on elsewhere. */
  view() {
    const { rows } = this;
    if (!rows.length) return null;
    const elsewhere = rows.some((row) => row.state === "running" && !row.here);
    const [last] = rows;
    return h(
      "details",
      { class: "card history", key: "history", open: elsewhere },
      h(
        "summary",
        null,
        h("b", null, "Done to everything that matched"),
        h("span", { class: "faint" }, "last ", when(last.at), ` by ${last.by}`),
      ),
      h("ul", { class: "list" }, rows.map(line)),
      h("p", { class: "body" }, h("a", { href: href("audit", { find: "state " }) }, "All of it in the audit")),
    );
  }
}

function line(row) {
  const standing = { running: "goes on", done: "ended", stopped: "stopped", failed: "failed" }[row.state];
  return h(
    "li",
    { key: row.id },
    h("span", { class: `state ${row.state}` }, standing),
    h(
      "div",
      { class: "grow" },
      h("div", null, h("b", null, `${many(row.done, "delivery", "deliveries")} ${DONE[row.action]}`)),
      h("div", { class: "faint" }, row.subject, ` · ${row.by} · `, when(row.at)),
      row.error && h("div", { class: "error" }, row.error),
      row.state === "running" &&
        h(
          "div",
          { class: "soft" },
          row.here
            ? "It goes on in this process."
            : "It goes on in another process, which alone can stop it; or that process has ended without a word, and this is how far it had come.",
        ),
    ),
  );
}

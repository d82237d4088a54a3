/** Past and running bulk actions of all processes. */

import { get } from "../api.js";
import { watch } from "../watch.js";
import { h } from "../view.js";
import { many } from "../format.js";
import { href } from "../router.js";
import { DONE } from "./bulk.js";
import { when } from "./pieces.js";
import { now } from "./when.js";

const SHOWN = 8;
/** How long a running action is followed, in milliseconds. */
const LONGEST = 3_600_000;

/** The latest bulk actions, from the audit. They are read once, and followed only while one is running. */
export class History {
  constructor(redraw) {
    Object.assign(this, { redraw, rows: [], unwatch: null });
    this.load();
  }

  /** Read them again: one has just started or ended. */
  async load() {
    const found = await get("bulk/history", { limit: SHOWN }).catch(() => null);
    if (found) this.received(found);
  }

  received({ rows }) {
    this.rows = rows;
    // An action whose process died stays "running" for ever.
    const running = rows.some((row) => row.state === "running" && now() - Date.parse(row.at) < LONGEST);
    if (running && !this.unwatch && !this.left)
      this.unwatch = watch("bulk/history", { limit: SHOWN }, { data: (found) => this.received(found) });
    if (!running) this.rest();
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

  /** Draw the list: collapsed, unless an action is running in another process. */
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
        h("b", null, "Bulk actions"),
        h("span", { class: "faint" }, "last ", when(last.at), ` by ${last.by}`),
      ),
      h("ul", { class: "list" }, rows.map(line)),
      h("p", { class: "body" }, h("a", { href: href("audit", { find: "state " }) }, "All bulk actions in the audit")),
    );
  }
}

function line(row) {
  const label = { running: "running", done: "ended", stopped: "stopped", failed: "failed" }[row.state];
  return h(
    "li",
    { key: row.id },
    h("span", { class: `state ${row.state}` }, label),
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
            ? "It is running in this process."
            : "It is running in another process, which alone can stop it; or that process died, and this is its last progress.",
        ),
    ),
  );
}

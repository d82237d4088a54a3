/** All deliveries: searching them, and acting on one, several or all matches. */

import { get } from "../api.js";
import { watch } from "../watch.js";
import { h, render } from "../view.js";
import { count } from "../format.js";
import { keys } from "../keys.js";
import { ACTIONS, Bulk, each, question } from "../parts/bulk.js";
import { attempt } from "../parts/dialogs.js";
import { History } from "../parts/history.js";
import { button, head, table, trouble } from "../parts/pieces.js";
import { Pages } from "../pages.js";
import { rewrite } from "../router.js";
import { compose } from "./publish.js";
import { COLUMNS, STATES, WORDS, key, nothing } from "./deliveries.js";
import { filters } from "./filters.js";

const LIMIT = 50;
/** How often a search continues by itself through rows that do not match. */
const ROUNDS = 10;

const KNOWN = [
  "state",
  "group",
  "topic",
  "key",
  "correlation_id",
  "kind",
  "error",
  "text",
  "fingerprint",
  "worker",
  "since",
  "until",
];

/** Shows the messages that match a filter, which is in the URL. */
export function messages(place, { query, context, go }) {
  const known = Object.fromEntries(Object.entries(query).filter(([name]) => KNOWN.includes(name)));
  const screen = new Messages(place, { state: "live", ...known }, context, go);
  screen.search();
  screen.bulk.resume();
  return screen;
}

class Messages {
  constructor(place, filter, context, go) {
    Object.assign(this, { place, filter, context, go });
    this.chosen = new Map();
    this.operates = context.operates;
    this.bulk = new Bulk(
      () => this.draw(),
      () => (this.choose([]), this.history.load()),
    );
    this.history = new History(() => this.draw());
    keys({
      j: () => this.step(1),
      k: () => this.step(-1),
      Enter: () => this.open(),
      x: () => this.toggle(this.pointed()),
    });
  }

  leave() {
    this.unwatch?.();
    this.bulk.leave();
    this.history.leave();
    clearTimeout(this.timer);
  }

  /** Restart with the current filter. */
  search() {
    this.unwatch?.();
    Object.assign(this, {
      pages: new Pages(key, (row, last) => row.seq < last.seq),
      scanned: 0,
      rounds: 0,
      refused: null,
    });
    this.choose([]);
    rewrite("messages", { ...this.filter, state: this.filter.state === "live" ? "" : this.filter.state });
    // A search in payloads, or in every state, is not repeated every second: it would load the database.
    this.follows = !this.filter.text && !this.filter.error && this.filter.state !== "any";
    const request = { ...this.filter, limit: LIMIT };
    if (this.follows)
      this.unwatch = watch("messages", request, {
        data: (page) => this.received(page),
        refused: (refusal) => this.refuse(refusal),
      });
    else
      get("messages", request).then(
        (page) => this.received(page),
        (refusal) => this.refuse(refusal),
      );
    this.draw();
  }

  refuse(refusal) {
    this.refused = refusal;
    this.draw();
  }

  received(page) {
    this.refused = null;
    this.pages.fresh(page.rows, page.cursor);
    if (!this.pages.loaded) this.scanned = page.scanned;
    this.draw();
    if (this.pages.cursor !== null && this.pages.all().length < LIMIT && this.rounds < ROUNDS) this.more();
  }

  /** Load the next page; it may be empty where rows do not match, and the search continues. */
  async more() {
    const asking = this.pages.more((cursor) => attempt(() => get("messages", { ...this.filter, cursor, limit: LIMIT })));
    this.draw();
    const page = await asking;
    if (page) {
      this.rounds += 1;
      this.scanned += page.scanned;
      if (page.cursor !== null && !page.rows.length && this.rounds < ROUNDS) return this.more();
    }
    this.draw();
  }

  set(name, value) {
    if (name === "state") {
      this.go("messages", { ...this.filter, state: value });
      return;
    }
    this.filter = { ...this.filter, [name]: value || undefined };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), 300);
  }

  choose(rows) {
    this.chosen = new Map(rows.map((row) => [key(row), row]));
    this.everything = false;
  }

  toggle(row) {
    if (!row) return;
    if (this.everything) this.choose(this.pages.all());
    if (!this.chosen.delete(key(row))) this.chosen.set(key(row), row);
    this.draw();
  }

  /** The row of the keyboard cursor: by its key, because rows come and go. */
  pointed() {
    return this.pages.all().find((row) => key(row) === this.at);
  }

  step(by) {
    const rows = this.pages.all();
    const index = rows.findIndex((row) => key(row) === this.at);
    const next = rows[Math.max(0, Math.min(rows.length - 1, index + by))];
    this.at = next && key(next);
    this.draw();
    this.place.querySelector("tr.at")?.scrollIntoView({ block: "nearest" });
  }

  open() {
    const row = this.pointed();
    if (row) this.go(`messages/${row.message_id}`);
  }

  async act(action) {
    if (this.everything) await this.bulk.start(action, this.filter, "all matches");
    else if (await each(action, [...this.chosen.values()])) this.choose([]);
    this.draw();
  }

  draw() {
    render(
      this.place,
      head(
        "Messages",
        null,
        this.tabs(),
        this.operates && button("Publish", () => compose(this.go), { kind: "main-act" }),
      ),
      filters(this),
      this.refused && trouble(this.refused),
      this.list(),
      this.actions(),
      this.bulk.view(),
      this.history.view(),
    );
  }

  tabs() {
    const one = (name) =>
      h(
        "button",
        { type: "button", "aria-pressed": String(this.filter.state === name), onclick: () => this.set("state", name) },
        WORDS[name] ?? name,
      );
    return h("div", { class: "tabs", role: "group", "aria-label": "State" }, STATES.map(one));
  }

  timed() {
    return Boolean(this.choosing || this.filter.since || this.filter.until);
  }

  clear() {
    this.choosing = false;
    this.filter = { state: this.filter.state };
    this.search();
  }

  list() {
    if (this.pages.first === null) return h("p", { class: "faint" }, "Loading …");
    const rows = this.pages.all();
    if (!rows.length && this.pages.cursor === null) return h("div", { class: "card" }, nothing(this.filter));
    return [rows.length > 0 && h("div", { class: "card" }, this.table(rows)), this.further(rows)];
  }

  table(rows) {
    const all = rows.length && rows.every((row) => this.chosen.has(key(row)));
    const box = h("input", {
      type: "checkbox",
      "aria-label": "Select all on this page",
      checked: all,
      onchange: () => (this.choose(all ? [] : rows), this.draw()),
    });
    const acts = this.operates && ACTIONS[this.filter.state];
    const columns = [
      acts && {
        name: "",
        head: box,
        tight: true,
        cell: (row) =>
          h("input", {
            type: "checkbox",
            "aria-label": "Choose",
            checked: this.everything || this.chosen.has(key(row)),
            onchange: () => this.toggle(row),
          }),
      },
      ...COLUMNS,
    ];
    return table(columns, rows, {
      key,
      open: (row) => this.go(`messages/${row.message_id}`),
      chosen: (row) => this.everything || this.chosen.has(key(row)),
      at: (row) => key(row) === this.at,
    });
  }

  further(rows) {
    if (this.pages.cursor === null) return null;
    const looked = this.scanned > rows.length && `${count(this.scanned)} rows scanned. `;
    return h(
      "p",
      { class: "row gap-above" },
      h("span", { class: "faint" }, looked),
      button(this.pages.loading ? "Searching …" : "More", () => ((this.rounds = 0), this.more()), {
        disabled: this.pages.loading,
      }),
    );
  }

  actions() {
    const acts = ACTIONS[this.filter.state];
    if (!acts || !this.operates || !(this.everything || this.chosen.size)) return null;
    const words = this.everything ? "All matches" : `${count(this.chosen.size)} selected`;
    return h(
      "div",
      { class: "card bulkbar", key: "actions" },
      h("b", null, words),
      !this.everything &&
        button("Select all matches", () => ((this.everything = true), this.draw()), { kind: "quiet" }),
      h("span", { class: "space grow" }),
      acts.map((action) =>
        button(question(action)[0], () => this.act(action), {
          kind: action === "discard" || action === "cancel" ? "grave" : "main-act",
        }),
      ),
      button("Clear", () => (this.choose([]), this.draw()), { kind: "quiet" }),
    );
  }
}

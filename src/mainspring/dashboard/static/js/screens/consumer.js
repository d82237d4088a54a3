/** One consumer: how it does over time, what it fails of, how it is set up, and whether it may go on. */

import { h } from "../view.js";
import { capped, count, many, rate, span } from "../format.js";
import { charts, known, tile, windows } from "../parts/measures.js";
import { card, empty, facts, failed, head, state, when } from "../parts/pieces.js";
import { href, rewrite } from "../router.js";
import { marks, steer } from "./consumers.js";
import { STATES, WORDS } from "./deliveries.js";
import { watching } from "./watching.js";

/** Options that say what they mean; the others are shown as they were declared. */
const OPTIONS = {
  kind: { async: "on the event loop", thread: "in a thread", process: "in a process of its own" },
  concurrency: (many) => `up to ${many} at once in each worker`,
  timeout: (length) => (length === "none" ? "no limit to how long it runs" : `ended after ${length}`),
  retry: {
    none: "never tried again",
    exponential: "tried again, waiting longer each time",
    intervals: "tried again after fixed times",
    proportional: "tried again after a share of the first delay",
    recurring: "tried again until its next occurrence",
  },
  keep: { all: "every run is kept", failures: "failed runs are kept", none: "no run is kept" },
  batch: (size) => `up to ${size} together in one call`,
  linger: (length) => `waits up to ${length} for a batch to fill`,
  ordered: {
    block: "in order by key; those behind a failed one wait",
    skip: "in order by key; those behind a failed one go on",
  },
  key_concurrency: (many) => `up to ${many} at once of each key`,
  global_concurrency: (many) => `up to ${many} at once in all workers together`,
  rate: (each) => `at most ${each.replace("/", " every ")}`,
  key_rate: (each) => `of each key at most ${each.replace("/", " every ")}`,
  breaker: (told) => `stands still after ${told}`,
  pending_limit: (most) => `takes no more while ${Number(most).toLocaleString("en")} wait`,
  when_full: {
    raise: "whoever publishes is refused while it is full",
    wait: "whoever publishes waits while it is full",
  },
  transactional: (what) => (what === "yes" ? "within a transaction" : `within a transaction: ${what}`),
};

/** Shows one consumer, named in the address. */
export function consumer(place, { query, house }) {
  const asked = { group: query.group, window: known(query.window) ?? house.window };
  const over = (window) => {
    asked.window = window;
    rewrite("consumers/view", asked);
    screen.ask(asked);
  };
  const screen = watching(
    place,
    "consumer",
    asked,
    (found) => draw(found, asked, house, over),
    () => unknown(query.group),
  );
  return screen;
}

function unknown(group) {
  return [
    crumb(group ?? ""),
    h("p", { class: "gap-above" }, h("a", { href: href("messages", { group, state: "dead" }) }, "Its dead letters")),
  ];
}

function crumb(group) {
  return h("p", { class: "crumb" }, h("a", { href: href("consumers") }, "Consumers"), " / ", group);
}

function draw(found, asked, house, over) {
  const row = found.consumer;
  return [
    crumb(row.group),
    head(row.group, marks(row), windows(asked.window, over), house.me.role === "operator" && steer(row, "")),
    row.paused_at &&
      h(
        "p",
        { class: "note warm gap-below" },
        h(
          "span",
          null,
          "Stands still since ",
          when(row.paused_at, "clock"),
          `, paused by ${row.paused_by}${row.pause_reason ? `: ${row.pause_reason}` : ""}.`,
        ),
      ),
    tiles(row, found.cap),
    charts(found, { failures: true }),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, causes(found, row), failures(found)),
      h("div", { class: "stack" }, messages(row), setup(row), about(row)),
    ),
  ];
}

function tiles(row, cap) {
  const { group } = row;
  const attempts = row.rate + row.failing;
  const share = attempts > 0 ? Math.round((100 * row.failing) / attempts) : 0;
  const to = (state) => href("messages", { group, state });
  return h(
    "div",
    { class: "tiles" },
    tile("Throughput", [rate(row.rate), h("small", null, " /s")], `${count(row.handled)} handled in all`, to("done")),
    tile(
      "Ready",
      capped(row.ready, cap),
      row.oldest_ready_at ? ["oldest ", when(row.oldest_ready_at, "age")] : "nothing waits",
      to("ready"),
    ),
    tile(
      "Running",
      count(row.running),
      row.lapsed ? `${count(row.lapsed)} lapsed, waiting to be taken over` : many(row.workers.length, "worker"),
      to(row.lapsed ? "lapsed" : "running"),
      row.workers.length ? "" : "warm",
    ),
    tile("Scheduled", capped(row.scheduled, cap), "later or again", to("scheduled")),
    tile(
      "Failing",
      [rate(row.failing), h("small", null, " /s")],
      share ? `${share} % of attempts` : `${count(row.failed)} failed in all`,
      to("retrying"),
      share >= 50 ? "alarm" : share >= 10 ? "warm" : "",
    ),
    tile(
      "Dead letters",
      capped(row.dead, cap),
      row.dead ? "to be looked at" : "none",
      row.dead ? href("dead", { group }) : to("dead"),
      row.dead ? "alarm" : "",
    ),
  );
}

function causes({ causes: rows, more_causes: more }, { group }) {
  if (!rows.length) return null;
  const items = rows.map((row) =>
    h(
      "li",
      { key: row.fingerprint },
      h("b", { class: "wrong" }, `${count(row.count)}${row.more ? "+" : ""}`),
      h(
        "div",
        { class: "grow" },
        h("div", { class: "cut error", title: row.error }, row.error),
        h(
          "span",
          { class: "faint" },
          row.kind !== "error" && `${row.kind} · `,
          "last ",
          when(row.last_at),
          " · ",
          h("a", { href: href("messages", { state: "dead", group, fingerprint: row.fingerprint }) }, "Look at them"),
        ),
      ),
    ),
  );
  return card(
    "What its dead letters died of",
    h("a", { href: href("dead", { group }) }, more ? "All causes" : "Revive or discard"),
    h("ul", { class: "list" }, items),
  );
}

function failures({ failures: runs }) {
  const list = runs.length
    ? h(
        "ul",
        { class: "list" },
        runs.map((run) => failed(run)),
      )
    : empty("Nothing has failed lately.", "Failed attempts are kept for 30 days, and shown here with what went wrong.");
  return card("Newest failures", null, list);
}

function setup(row) {
  const told = Object.entries(row.options).map(([name, value]) => [name.replaceAll("_", " "), said(name, value)]);
  return card("How it works", null, h("div", { class: "body" }, facts(...told)));
}

/** An option in words, with what was declared on the title. */
function said(name, value) {
  const words = Object.hasOwn(OPTIONS, name) ? OPTIONS[name] : null;
  const text = typeof words === "function" ? words(value) : words && Object.hasOwn(words, value) && words[value];
  return text ? h("span", { title: `${name}=${value}` }, text) : h("code", null, value);
}

function about(row) {
  const topics = row.patterns.map((each) => [h("code", null, each), " "]);
  const workers = row.workers.map((name, index) => [
    index > 0 && ", ",
    h("a", { href: href("workers", { find: name }) }, name),
  ]);
  return card(
    "Declaration",
    null,
    h(
      "div",
      { class: "body" },
      facts(
        ["topics", topics.length ? topics : "none: only what is sent to it"],
        ["handler", h("code", null, row.handler)],
        ["app", row.app],
        ["workers", workers.length ? workers : state("unserved", "No worker serves it")],
        ["served", row.served_at ? when(row.served_at) : "never"],
        ["declared", when(row.declared_at)],
        ["waited", quantiles(row.wait)],
        ["ran", quantiles(row.run)],
      ),
    ),
  );
}

function messages({ group }) {
  // What is parked is nobody's yet.
  const links = STATES.filter((name) => name !== "parked").map((name) =>
    h("a", { class: "button small", href: href("messages", { group, state: name }) }, WORDS[name] ?? name),
  );
  return card("Its messages", null, h("div", { class: "body row" }, links));
}

function quantiles(found) {
  if (found.p50 === null) return "nothing in the last minute";
  return `p50 ${span(found.p50)}, p95 ${span(found.p95)}, p99 ${span(found.p99)} in the last minute`;
}

/** One consumer: measures over time, failures, options, and pausing. */

import { h } from "../view.js";
import { capped, count, many, rate, span } from "../format.js";
import { charts, known, tile, windows } from "../parts/measures.js";
import { card, empty, facts, failed, head, state, stopped, when } from "../parts/pieces.js";
import { href, rewrite } from "../router.js";
import { marks, steer, unserved } from "./consumers.js";
import { STATES, WORDS } from "./deliveries.js";
import { watchScreen } from "./screen.js";

/** Texts of options; other options are shown as declared. */
const OPTIONS = {
  kind: { async: "on the event loop", thread: "in a thread", process: "in a separate process" },
  concurrency: (many) => `up to ${many} at once in each worker`,
  timeout: (length) => (length === "none" ? "no time limit" : `stopped after ${length}`),
  retry: {
    none: "not retried",
    exponential: "retried with increasing delays",
    intervals: "retried after fixed delays",
    proportional: "retried after a share of the first delay",
    recurring: "retried until its next occurrence",
  },
  keep: { all: "all runs are kept", failures: "failed runs are kept", none: "no runs are kept" },
  batch: (size) => `up to ${size} together in one call`,
  linger: (length) => `waits up to ${length} for a batch to fill`,
  ordered: {
    block: "ordered by key; messages behind a failed one wait",
    skip: "ordered by key; messages behind a failed one continue",
  },
  key_concurrency: (many) => `up to ${many} at once per key`,
  global_concurrency: (many) => `up to ${many} at once across all workers`,
  rate: (each) => `at most ${each.replace("/", " every ")}`,
  key_rate: (each) => `per key at most ${each.replace("/", " every ")}`,
  breaker: (rule) => `opens after ${rule}`,
  pending_limit: (most) => `publishing is limited at ${Number(most).toLocaleString("en")} pending`,
  when_full: {
    raise: "publishing fails while it is full",
    wait: "publishing waits while it is full",
  },
  transactional: (what) => (what === "yes" ? "in a transaction" : `in a transaction: ${what}`),
};

/** Shows one consumer, named in the address. */
export function consumer(place, { query, context }) {
  const request = { group: query.group, window: known(query.window) ?? context.window };
  const over = (window) => {
    request.window = window;
    rewrite("consumers/view", request);
    screen.ask(request);
  };
  const screen = watchScreen(
    place,
    "consumer",
    request,
    (found) => draw(found, request, context, over),
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

function draw(found, request, context, over) {
  const row = found.consumer;
  return [
    crumb(row.group),
    head(row.group, marks(row), windows(request.window, over), context.operates && steer(row, "")),
    row.paused_at &&
      h(
        "p",
        { class: "note warm gap-below" },
        h(
          "span",
          null,
          "Paused since ",
          stopped(row.paused_at, row.paused_by, row.pause_reason, "clock"),
          ".",
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
    tile("Throughput", [rate(row.rate), h("small", null, " /s")], `${count(row.handled)} handled in total`, to("done")),
    tile(
      "Ready",
      capped(row.ready, cap),
      row.oldest_ready_at ? ["oldest ", when(row.oldest_ready_at, "age")] : "none waiting",
      to("ready"),
    ),
    tile(
      "Running",
      count(row.running),
      row.lapsed ? `${count(row.lapsed)} lapsed, waiting to be taken over` : many(row.workers.length, "worker"),
      to(row.lapsed ? "lapsed" : "running"),
      unserved(row) ? "warm" : "",
    ),
    tile("Scheduled", capped(row.scheduled, cap), "delayed or retrying", to("scheduled")),
    tile(
      "Failing",
      [rate(row.failing), h("small", null, " /s")],
      share ? `${share} % of attempts` : `${count(row.failed)} failed in total`,
      to("retrying"),
      share >= 50 ? "alarm" : share >= 10 ? "warm" : "",
    ),
    tile(
      "Dead letters",
      capped(row.dead, cap),
      row.dead ? "need attention" : "none",
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
          h("a", { href: href("messages", { state: "dead", group, fingerprint: row.fingerprint }) }, "Show"),
        ),
      ),
    ),
  );
  return card(
    "Causes of its dead letters",
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
    : empty("No recent failures.", "Failed attempts are kept for 30 days, and shown here with their errors.");
  return card("Latest failures", null, list);
}

function setup(row) {
  const options = Object.entries(row.options).map(([name, value]) => [name.replaceAll("_", " "), spelled(name, value)]);
  return card("Options", null, h("div", { class: "body" }, facts(...options)));
}

/** An option as text, with its declared value in the title. */
function spelled(name, value) {
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
        ["topics", topics.length ? topics : "none: only direct sends"],
        ["handler", h("code", null, row.handler)],
        ["app", row.app],
        ["workers", unserved(row) ? state("unserved", "No worker serves it") : workers.length ? workers : "none now"],
        ["served", row.served_at ? when(row.served_at) : "never"],
        ["declared", when(row.declared_at)],
        ["waited", quantiles(row.wait)],
        ["ran", quantiles(row.run)],
      ),
    ),
  );
}

function messages({ group }) {
  // Parked messages belong to no group yet.
  const links = STATES.filter((name) => name !== "parked").map((name) =>
    h("a", { class: "button small", href: href("messages", { group, state: name }) }, WORDS[name] ?? name),
  );
  return card("Its messages", null, h("div", { class: "body row" }, links));
}

function quantiles(found) {
  if (found.p50 === null) return "none in the last minute";
  return `p50 ${span(found.p50)}, p95 ${span(found.p95)}, p99 ${span(found.p99)} in the last minute`;
}

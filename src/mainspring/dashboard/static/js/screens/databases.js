/** The databases of a fleet: one row each, as it was read last. */

import { home } from "../api.js";
import { h, render } from "../view.js";
import { count, rate } from "../format.js";
import { tile } from "../parts/measures.js";
import { breakable, button, empty, head, prose, state, table, when } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { databaseHref, href, rewrite } from "../router.js";
import { watchScreen } from "./screen.js";

const STEP = 100;
const MOST = 1000;

/** Shows all databases, or those that match, with sums over all on top. */
export function databases(place, { query, context }) {
  let limit = STEP;
  let unwell = query.unwell === "true";
  const again = () => screen.ask({ find: filter.find, sort: filter.sort, unwell: unwell || null, limit });
  const more = () => ({ unwell: unwell || null });
  const filter = new RowFilter("", query, { redraw: again, search: again, more });

  function only(chosen) {
    unwell = chosen;
    rewrite("", { find: filter.find, sort: filter.sort, ...more() });
    screen.redraw();
    again();
  }

  function longer() {
    limit = Math.min(limit + STEP, MOST);
    again();
  }

  const screen = watchScreen(place, "databases", { find: filter.find, sort: filter.sort, unwell: unwell || null, limit }, (found) => {
    const longest = found.rows.length < found.found && limit < MOST;
    return [
      head("Databases", context.overview && matching(found, context.overview), tabs(context, unwell, only), filter.box("Find a database")),
      context.overview && [wrongs(context.overview), tiles(context.overview)],
      found.rows.length ? rows(found, filter) : nothing(context, filter, unwell),
      longest && h("p", { class: "gap-above" }, button("More", longer)),
    ];
  });
  const listener = () => screen.redraw();
  context.listeners.add(listener);
  return screen;
}

function matching({ rows: shown, found }, { databases: all }) {
  if (found < all) return `${count(found)} of ${count(all)}`;
  return shown.length < all ? `${count(shown.length)} of ${count(all)} shown` : count(all);
}

function tabs({ overview }, unwell, only) {
  const wrong = overview ? overview.databases - healthy(overview) : 0;
  const tab = (label, chosen) =>
    h("button", { type: "button", "aria-pressed": String(unwell === chosen), onclick: () => only(chosen) }, label);
  const others = h("span", { class: wrong ? "wrong" : "faint" }, ` ${count(wrong)}`);
  return h("div", { class: "tabs", role: "group", "aria-label": "Which databases" }, tab("All", false), tab(["Not healthy", others], true));
}

function healthy({ databases: all, unread, degraded, unhealthy }) {
  return all - unread - degraded - unhealthy;
}

function wrongs({ checks }) {
  if (!checks.length) return null;
  const lines = checks.map((check) => h("li", { key: check.name }, h("b", null, check.name), " – ", prose(check.summary)));
  return h("div", { class: "note warm gap-below", role: "alert" }, h("ul", null, lines));
}

function tiles(sums) {
  const wrong = [
    sums.unhealthy && `${count(sums.unhealthy)} unhealthy`,
    sums.degraded && `${count(sums.degraded)} degraded`,
    sums.unread && `${count(sums.unread)} not read yet`,
  ].filter(Boolean);
  const by = (sort) => href("", { sort });
  return h(
    "div",
    { class: "tiles" },
    tile("Healthy", [count(healthy(sums)), h("small", null, ` of ${count(sums.databases)}`)], wrong.join(", ") || "all is well", href("", wrong.length ? { unwell: true } : {}), sums.unhealthy ? "alarm" : sums.degraded ? "warm" : ""),
    tile("Throughput", [rate(sums.rate), h("small", null, " /s")], "done in the last minute", by("-done")),
    tile("Ready", count(sums.ready), sums.oldest_ready_at ? ["oldest ", when(sums.oldest_ready_at, "age")] : "none waiting", by("-ready")),
    tile("Running", count(sums.running), "in all databases", by("-running")),
    tile("Scheduled", count(sums.scheduled), "delayed or retrying", by("-scheduled")),
    tile("Dead letters", count(sums.dead), sums.dead ? "need attention" : "none", by("-dead"), sums.dead ? "alarm" : ""),
  );
}

function rows(found, filter) {
  return h(
    "div",
    { class: "card databases" },
    table(COLUMNS, found.rows, {
      key: (row) => row.name,
      open: (row) => location.assign(databaseHref(row.name)),
      filter,
    }),
  );
}

/** A number of the last reading, faint if the database could not be read since; `path` leads to what it counts. */
function figure(row, value, text, path, query) {
  if (value === null) return "–";
  const kind = row.error ? "faint" : "";
  if (!value || !path) return h("span", { class: kind }, text);
  return h("a", { class: kind, href: databaseHref(row.name, path, query) }, text);
}

function number(row, name, path, query) {
  return figure(row, row[name], count(row[name]), path, query);
}

function status(row) {
  return state(row.status ?? "unread", row.summary);
}

const COLUMNS = [
  {
    name: "Database",
    by: true,
    cell: (row) => [
      h("b", null, h("a", { href: databaseHref(row.name) }, breakable(row.name))),
      h("span", { class: "narrow-only" }, status(row)),
      row.summary && h("span", { class: `under ${row.status === "unhealthy" ? "wrong" : ""}`, title: row.summary }, prose(row.summary)),
    ],
  },
  { name: "Status", spare: true, by: true, cell: status },
  {
    name: "Ready",
    right: true,
    by: true,
    cell: (row) => number(row, "ready", "messages", { state: "ready" }),
  },
  { name: "Oldest", right: true, spare: true, by: true, cell: (row) => (row.oldest_ready_at ? when(row.oldest_ready_at, "age") : "–") },
  { name: "Running", right: true, spare: true, by: true, cell: (row) => number(row, "running", "messages", { state: "running" }) },
  { name: "Scheduled", right: true, spare: true, by: true, cell: (row) => number(row, "scheduled", "messages", { state: "scheduled" }) },
  { name: "Done", right: true, spare: true, by: true, cell: (row) => figure(row, row.rate, `${rate(row.rate)}/s`) },
  {
    name: "Dead",
    right: true,
    by: true,
    cell: (row) => (row.dead ? h("a", { class: row.error ? "faint" : "wrong", href: databaseHref(row.name, "dead") }, count(row.dead)) : "–"),
  },
  { name: "Read", right: true, spare: true, by: true, cell: (row) => h("span", { class: "faint" }, row.read_at ? when(row.read_at) : "–") },
];

function nothing({ overview }, filter, unwell) {
  if (overview && !overview.databases)
    return h("div", { class: "card" }, empty("No databases.", "The fleet names none: its mapping is empty, or its function returned none."));
  if (unwell && !filter.find) return h("div", { class: "card" }, empty("All databases are healthy."));
  return h("p", { class: "faint" }, "No matches.");
}

/** Shows that the fleet has no database of this name. */
export function absent(place, { context }) {
  const text = ["This fleet has no database ", h("b", null, context.me.database), ". It may have been removed or renamed."];
  render(place, h("div", { class: "card" }, empty("No such database", text), h("p", { class: "centred" }, h("a", { href: `${home}/` }, "All databases"))));
  return {};
}

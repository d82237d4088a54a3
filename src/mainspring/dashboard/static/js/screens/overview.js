/** The overview. */

import { inFleet } from "../api.js";
import { h, render } from "../view.js";
import { capped, count, rate } from "../format.js";
import { charts, tile, windows } from "../parts/measures.js";
import { breakable, card, consumerLink, empty, failed, head, prose, running, state, when } from "../parts/pieces.js";
import { href } from "../router.js";

/** Shows the overview that the frame watches. */
export function overview(place, { context }) {
  const redraw = () =>
    render(place, context.overview ? draw(context) : h("p", { class: "faint" }, context.refused?.message ?? "Loading …"));
  context.listeners.add(redraw);
  redraw();
  return {};
}

function draw(context) {
  const seen = context.overview;
  return [
    head("Overview", null, windows(context.window, context.over)),
    ills(seen.health),
    tiles(seen),
    charts(seen),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, groups(seen), failures(seen)),
      h("div", { class: "stack" }, next(seen), health(seen)),
    ),
  ];
}

function ills(found) {
  const worse = found.checks.filter((check) => check.status !== "healthy");
  if (!worse.length) return null;
  const kind = found.status === "unhealthy" ? "grave" : "warm";
  return h(
    "div",
    { class: `note ${kind} gap-below`, role: "alert" },
    h(
      "ul",
      null,
      worse.map((check) => h("li", { key: check.name }, h("b", null, check.name), " – ", prose(check.summary))),
    ),
  );
}

function tiles(seen) {
  const { totals, workers, groups: all, cap } = seen;
  const done = sum(all, "rate");
  const failing = sum(all, "failing");
  const share = done + failing > 0 ? Math.round((100 * failing) / (done + failing)) : 0;
  return h(
    "div",
    { class: "tiles" },
    tile(
      "Throughput",
      [rate(done), h("small", null, " /s")],
      `${count(sum(all, "handled"))} handled in total`,
      href("messages", { state: "done" }),
    ),
    tile(
      "Ready",
      capped(totals.ready, cap),
      seen.oldest_ready_at ? ["oldest ", when(seen.oldest_ready_at, "age")] : "none waiting",
      href("messages", { state: "ready" }),
    ),
    tile(
      "Running",
      count(totals.running),
      totals.lapsed
        ? `${count(totals.lapsed)} lapsed, waiting to be taken over`
        : `${workers.alive} ${workers.alive === 1 ? "worker" : "workers"}${workers.silent ? `, ${workers.silent} silent` : ""}`,
      href("messages", { state: totals.lapsed ? "lapsed" : "running" }),
      !workers.alive && all.length && !inFleet ? "warm" : "",
    ),
    tile("Scheduled", capped(totals.scheduled, cap), "delayed or retrying", href("messages", { state: "scheduled" })),
    tile(
      "Failing",
      [rate(failing), h("small", null, " /s")],
      share ? `${share} % of attempts` : "in the last minute",
      href("messages", { state: "retrying" }),
      share >= 50 ? "alarm" : share >= 10 ? "warm" : "",
    ),
    tile(
      "Dead letters",
      capped(totals.dead, cap),
      totals.parked ? `${count(totals.parked)} parked` : totals.dead ? "need attention" : "none",
      href("dead"),
      totals.dead ? "alarm" : "",
    ),
  );
}

function groups(seen) {
  const title = "Consumers";
  if (!seen.groups.length) {
    return card(
      title,
      null,
      empty("No consumers declared yet.", "A worker declares them when it starts.", "mainspring worker shop:app"),
    );
  }
  const most = Math.max(1, ...seen.groups.map((group) => group.ready));
  const rows = [...seen.groups].sort(
    (one, other) => other.ready - one.ready || other.rate - one.rate || one.group.localeCompare(other.group),
  );
  const body = rows.map((group) =>
    h(
      "tr",
      { key: group.group },
      h("td", null, consumerLink(group.group, breakable(group.group)), " ", group.paused && state("paused")),
      h(
        "td",
        { class: "right" },
        group.ready
          ? h("a", { href: href("messages", { group: group.group, state: "ready" }) }, capped(group.ready, seen.cap))
          : "0",
        " ",
        h("span", { class: "meter roomy" }, meter(group.ready / most)),
      ),
      h("td", { class: "right spare" }, group.oldest_ready_at ? when(group.oldest_ready_at, "age") : "–"),
      h("td", { class: "right" }, running(group)),
      h("td", { class: "right roomy" }, capped(group.scheduled, seen.cap)),
      h("td", { class: "right" }, `${rate(group.rate)}/s`),
      h("td", { class: `right spare ${group.failing ? "wrong" : ""}` }, `${rate(group.failing)}/s`),
      h(
        "td",
        { class: "right" },
        group.dead
          ? h("a", { class: "wrong", href: href("dead", { group: group.group }) }, capped(group.dead, seen.cap))
          : "–",
      ),
    ),
  );
  const names = ["Consumer", "Ready", "Oldest", "Running", "Scheduled", "Done", "Failing", "Dead"];
  const kinds = { Consumer: "", Scheduled: "right roomy", Oldest: "right spare", Failing: "right spare" };
  const heads = names.map((name) => h("th", { scope: "col", class: kinds[name] ?? "right" }, name));
  return card(
    title,
    h("a", { href: href("consumers") }, "All"),
    h("div", { class: "scroll" }, h("table", null, h("thead", null, h("tr", null, heads)), h("tbody", null, body))),
  );
}

function meter(share) {
  return h("i", { class: `w-${Math.round(share * 20) * 5}` });
}

function failures(seen) {
  if (!seen.failures.length)
    return card(
      "Latest failures",
      null,
      empty("No failures.", "Failed attempts are kept for 30 days, and shown here with their errors."),
    );
  const rows = seen.failures.map((run) => failed(run, consumerLink(run.group)));
  return card("Latest failures", h("a", { href: href("dead") }, "Dead letters"), h("ul", { class: "list" }, rows));
}

function next(seen) {
  if (!seen.next.length)
    return card(
      "Next",
      null,
      empty("No schedules due.", "Recurring work is declared in code.", '@app.recurring("0 9 * * mon-fri")'),
    );
  const rows = seen.next.map((each) =>
    h(
      "li",
      { key: each.name },
      h(
        "div",
        { class: "grow" },
        h("a", { href: href("schedules/view", { name: each.name }) }, each.name),
        h("div", { class: "faint cut", title: each.rhythm }, each.description),
      ),
      when(each.next_at, "countdown"),
    ),
  );
  return card("Next", h("a", { href: href("schedules") }, "Schedules"), h("ul", { class: "list" }, rows));
}

function health(seen) {
  const rows = seen.health.checks.map((check) =>
    h(
      "li",
      { key: check.name },
      h("div", { class: "grow" }, h("div", null, check.name), h("div", { class: "faint" }, prose(check.summary))),
      state(check.status),
    ),
  );
  return card("Health", state(seen.health.status), h("ul", { class: "list" }, rows));
}

function sum(rows, name) {
  return rows.reduce((total, row) => total + row[name], 0);
}

/** One schedule: its rhythm, next times and runs; editing it with a preview, and backfilling. */

import { get, post } from "../api.js";
import { h } from "../view.js";
import { between, clock, count, many, span } from "../format.js";
import { ask, attempt, confirmed, field, toast } from "../parts/dialogs.js";
import { button, card, consumerLink, empty, facts, head, messageLink, state, stopped, strip, table, when } from "../parts/pieces.js";
import { href } from "../router.js";
import { Pages } from "../pages.js";
import { PRIORITIES, daysOf, editing, headersOf, retryOf } from "./definition.js";
import { instants } from "./rhythm.js";
import { steer } from "./schedules.js";
import { watchScreen } from "./screen.js";

/** Shows one schedule, named in the URL. */
export function schedule(place, { query, context, go }) {
  const pages = new Pages(
    (run) => run.id,
    (run, last) => run.id < last.id,
  );
  const screen = watchScreen(place, "schedule", { name: query.name }, (found) =>
    draw(found, pages, context, go, () => screen.redraw()),
  );
  return screen;
}

function draw(found, pages, context, go, redraw) {
  const row = found.schedule;
  pages.fresh(found.runs, found.cursor);
  return [
    h("p", { class: "crumb" }, h("a", { href: href("schedules") }, "Schedules"), " / ", row.name),
    head(row.name, [state(row.state), " ", row.description], context.operates && actions(row, go)),
    row.problem && h("p", { class: "note warm gap-below" }, row.problem),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, history(found, pages, redraw)),
      h("div", { class: "stack" }, upcoming(found), about(row)),
    ),
  ];
}

function actions(row, go) {
  const remove = async () => {
    const text = "Its history and current runs stay.";
    if (
      await confirmed(`Delete ${row.name}?`, text, "Delete", () => post("schedules/delete", { name: row.name }), {
        grave: true,
      })
    )
      go("schedules");
  };
  return [
    steer(row),
    button("Edit", () => editing(row), { kind: "small main-act" }),
    button("Backfill", () => backfill(row.name), { kind: "small" }),
    (row.origin === "api" || row.state === "retired") && button("Delete", remove, { kind: "small grave" }),
  ];
}

function backfill(name) {
  const values = { start: "", end: "" };
  return ask({
    title: `Run ${name} for the past`,
    label: "Backfill",
    values,
    draw: () => [
      h(
        "p",
        { class: "soft" },
        "Runs every occurrence between the two times, one after another unless the schedule allows overlaps.",
      ),
      h(
        "div",
        { class: "fields" },
        field(values, "start", "From", { type: "datetime-local" }),
        field(values, "end", "To", { type: "datetime-local" }),
      ),
    ],
    async act() {
      if (!values.start || !values.end) throw new Error("Enter both times.");
      const done = await post("schedules/backfill", {
        name,
        start: new Date(values.start).toISOString(),
        end: new Date(values.end).toISOString(),
      });
      toast(`${count(done.count)} occurrences published.`);
    },
  });
}

function upcoming({ schedule: row, next }) {
  if (!next.length) return card("Next", null, empty("No next time.", "The schedule has no further occurrence."));
  const aside = row.state === "active" ? when(row.next_at) : `if not ${row.state}`;
  return card("Next", aside, instants(next));
}

function about(row) {
  const edited = new Set(row.edited);
  const configured = new Set(row.configured);
  const from = (name) => (edited.has(name) ? " (edited)" : configured.has(name) ? " (configured)" : "");
  // An edit to nothing is shown, too: it overrides the code.
  const set = (name, text) => (text || from(name) ? (text || "none") + from(name) : null);
  return card(
    "Definition",
    null,
    h(
      "div",
      { class: "body" },
      facts(
        ["rhythm", [h("code", null, row.rhythm), from("rhythm")]],
        ["zone", row.timezone + from("timezone")],
        ["only on", set("workdays", daysOf(row.workdays))],
        ["not on", set("holidays", daysOf(row.holidays))],
        ["not before", set("start", row.start && clock(row.start))],
        ["not after", set("end", row.end && clock(row.end))],
        ["day fields", set("day_match", row.day_match === "or" && "either matches")],
        ["skipped time", set("on_gap", row.on_gap === "skip" && "not that day")],
        row.mode === "direct" ? ["consumer", row.group && consumerLink(row.group)] : ["topic", row.topic],
        ["misfire", row.misfire + from("misfire")],
        ["missed after", span(row.misfire_after) + from("misfire_after")],
        ["catches up", row.misfire === "all" ? `at most ${count(row.catch_up)}${from("catch_up")}` : null],
        ["overlap", row.overlap + from("overlap")],
        ["jitter", set("jitter", row.jitter && `up to ${span(row.jitter)}`)],
        ["priority", PRIORITIES[row.priority] + from("priority")],
        ["only if", set("only_if", row.only_if && daysOf([row.only_if]))],
        ["retry", set("retry", retryOf(row))],
        ["timeout", set("timeout", row.untimed ? "no limit" : row.timeout && span(row.timeout))],
        ["dead letters", set("dead", row.dead && `${row.dead} kept`)],
        ["then", row.then ? [consumerLink(row.then), from("then")] : set("then")],
        ["if it failed", row.failed ? [consumerLink(row.failed), from("failed")] : set("failed")],
        ["key", set("key", row.key)],
        ["correlation", set("correlation_id", row.correlation_id)],
        ["headers", set("headers", headersOf(row))],
        ["fired", count(row.fired)],
        ["missed", row.missed ? count(row.missed) : null],
        ["skipped", row.skipped ? count(row.skipped) : null],
        ["app", row.app],
        ["created by", row.origin === "code" ? "its code" : "the API"],
        row.paused_at && ["paused", stopped(row.paused_at, row.paused_by, row.pause_reason)],
      ),
    ),
  );
}

function history({ schedule: { name, run_times: took } }, pages, redraw) {
  const runs = pages.all();
  if (!runs.length)
    return card(
      "Runs",
      null,
      empty("No kept runs.", "Runs of schedules are kept for a week, failures for a month."),
    );
  const columns = [
    { name: "", cell: (run) => state(run.status) },
    {
      name: "For",
      cell: (run) => [
        messageLink(run.message_id, run.scheduled_for ? clock(run.scheduled_for) : undefined),
        run.source !== "schedule" && h("span", { class: "under" }, run.source),
      ],
    },
    { name: "Attempt", right: true, spare: true, cell: (run) => run.attempt },
    { name: "Took", right: true, cell: (run) => span(between(run.started_at, run.finished_at)) },
    {
      name: "",
      fill: true,
      cell: (run) =>
        run.error
          ? h("div", { class: "cut error", title: run.error }, run.error)
          : h("div", { class: "cut soft" }, run.output ?? ""),
    },
    { name: "Ended", right: true, cell: (run) => when(run.finished_at) },
  ];
  const more = async () => {
    await pages.more((cursor) => attempt(() => get("schedule/runs", { name, cursor, limit: 50 })));
    redraw();
  };
  return card(
    "Runs",
    strip(runs, 30),
    took &&
      h(
        "p",
        { class: "body figures" },
        ["p50", "p95", "p99"].map((share) => h("span", null, h("span", { class: "faint" }, share), " ", span(took[share]))),
        h("span", { class: "faint" }, `run time of the newest ${many(took.runs, "kept run")}`),
      ),
    table(columns, runs, { key: (run) => run.id }),
    pages.cursor !== null && h("div", { class: "body" }, button("More", more)),
  );
}

/** Schedules: next times and recent runs. */

import { post } from "../api.js";
import { h } from "../view.js";
import { between, many, span } from "../format.js";
import { ask, attempt, confirmedWithReason, resumeButton, toast } from "../parts/dialogs.js";
import { checked, editor } from "../parts/json.js";
import { breakable, button, emptyCard, head, messageLink, state, stopped, strip, table, when } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { href } from "../router.js";
import { creating } from "./definition.js";
import { watchScreen } from "./screen.js";

/** Shows every schedule. */
export function schedules(place, { query, context, go }) {
  const filter = new RowFilter("schedules", query, { redraw: () => screen.redraw() });
  const screen = watchScreen(place, "schedules", null, (found) => draw(found, filter, context, go));
  return screen;
}

function draw({ rows }, filter, context, go) {
  const { operates, mayFreeze } = context;
  const frozen = rows.find((row) => row.frozen_at);
  const found = filter.found(rows, (row) => `${row.name} ${row.description} ${row.rhythm} ${row.timezone} ${row.state}`);
  const freeze =
    mayFreeze &&
    (frozen
      ? button("Thaw", () => attempt(() => post("schedules/thaw"), "The schedules are thawed."))
      : rows.length > 0 && button("Freeze all", freezing));
  const title = head(
    "Schedules",
    rows.length ? many(rows.length, "schedule") : null,
    rows.length > 0 && filter.box("Find a schedule"),
    h("a", { class: "button", href: href("schedules/try") }, "Try an expression"),
    freeze,
    mayFreeze && button("New schedule", () => creating(context, go), { kind: "main-act" }),
  );
  if (!rows.length) {
    return [
      title,
      emptyCard(
        "No schedules.",
        "They are declared in code, or created at run time: here, or with app.schedules.put(…).",
        '@app.recurring("0 9 * * mon-fri", timezone="America/New_York")\nasync def daily_report() -> None: ...',
      ),
    ];
  }
  const note =
    frozen &&
    h(
      "div",
      { class: "note warm gap-below", role: "alert" },
      "All schedules were frozen ",
      stopped(frozen.frozen_at, frozen.frozen_by, frozen.freeze_reason),
      ".",
    );
  const columns = [
    {
      name: "Schedule",
      by: (row) => row.name,
      cell: (row) => [
        h("a", { href: href("schedules/view", { name: row.name }) }, breakable(row.name)),
        " ",
        row.state !== "active" && state(row.state, row.problem),
        h("span", { class: "under" }, row.description || row.rhythm),
      ],
    },
    {
      name: "Rhythm",
      spare: true,
      cell: (row) => [h("code", null, row.rhythm), h("span", { class: "under" }, breakable(row.timezone))],
    },
    {
      name: "Next",
      right: true,
      rising: true,
      by: (row) => (due(row) ? Date.parse(row.next_at) : null),
      cell: (row) => (due(row) ? when(row.next_at, "countdown") : "–"),
    },
    {
      name: "Last run",
      right: true,
      spare: true,
      by: (row) => row.last_run && Date.parse(row.last_run.finished_at),
      cell: last,
    },
    { name: "Lately", cell: (row) => strip(row.recent) },
    operates && { name: "", right: true, spare: true, cell: (row) => h("span", { class: "row end" }, steer(row)) },
  ];
  return [
    title,
    note,
    h(
      "div",
      { class: "card" },
      table(columns, filter.sorted(found, columns), {
        key: (row) => row.name,
        open: (row) => go("schedules/view", { name: row.name }),
        filter,
      }),
    ),
    !found.length && h("p", { class: "faint gap-above" }, "No matches."),
  ];
}

function due(row) {
  return row.state === "active" && row.next_at;
}

function last(row) {
  const run = row.last_run;
  if (!run) return h("span", { class: "faint" }, row.fired ? "not kept" : "never ran");
  return [
    when(run.finished_at),
    h("span", { class: "under" }, `${run.status}, ${span(between(run.started_at, run.finished_at))}`),
  ];
}

/** The buttons of one schedule. */
export function steer(row) {
  const going =
    row.state === "paused"
      ? resumeButton("schedules/resume", { name: row.name }, row.name)
      : button("Pause", () => pausing(row.name), { kind: "small" });
  return [
    button("Run now", () => trigger(row.name), { kind: "small" }),
    row.state !== "retired" && row.state !== "finished" && going,
  ];
}

async function trigger(name) {
  const values = { payload: "" };
  const done = await ask({
    title: `Run ${name} now?`,
    label: "Run now",
    values,
    draw: (_, redraw) => [
      h("p", { class: "soft" }, "Runs once; its next occurrence does not change."),
      h(
        "details",
        null,
        h("summary", null, "With another payload"),
        editor(values, "payload", "Payload", { hint: "JSON, for this run only.", blank: "Empty: the schedule's payload.", redraw }),
      ),
    ],
    act: () =>
      post("schedules/trigger", { name, ...(values.payload.trim() && { payload_text: checked(values.payload) }) }),
  });
  if (done) toast([`${name} is triggered. `, messageLink(done.id, "Its message")]);
}

function pausing(name) {
  return confirmedWithReason(
    `Pause ${name}?`,
    "It stops, across restarts and deploys, until it is resumed. Running handlers continue; occurrences that have not started are cancelled.",
    "Pause",
    (reason) => post("schedules/pause", { name, reason }),
  );
}

function freezing() {
  return confirmedWithReason(
    "Freeze all schedules?",
    "No schedule of this app fires until they are thawed. Each schedule's misfire policy decides on times missed since.",
    "Freeze",
    (reason) => post("schedules/freeze", { reason }),
    { grave: true },
  );
}

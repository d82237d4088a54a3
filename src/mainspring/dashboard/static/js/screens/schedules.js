/** Everything that runs on a rhythm: when it is next due, and how it went lately. */

import { post } from "../api.js";
import { h } from "../view.js";
import { between, many, span } from "../format.js";
import { ask, attempt, confirmed, field } from "../parts/dialogs.js";
import { button, empty, head, state, strip, table, when } from "../parts/pieces.js";
import { href } from "../router.js";
import { watching } from "./watching.js";

/** Shows every schedule. */
export function schedules(place, { house, go }) {
  const own = { search: "" };
  const screen = watching(place, "schedules", null, (found) => draw(found, own, house, go, () => screen.redraw()));
  return screen;
}

function draw({ rows }, own, house, go, redraw) {
  const operates = house.me.role === "operator";
  const frozen = rows.find((row) => row.frozen_at);
  const wanted = own.search.toLowerCase();
  const found = rows.filter((row) =>
    `${row.name} ${row.description} ${row.rhythm} ${row.timezone}`.toLowerCase().includes(wanted),
  );
  const search = h("input", {
    type: "search",
    placeholder: "Find a schedule",
    "aria-label": "Find a schedule",
    "data-search": true,
    value: own.search,
    oninput: (event) => ((own.search = event.target.value), redraw()),
  });
  const freeze =
    operates &&
    (frozen
      ? button("Thaw", () => attempt(() => post("schedules/thaw"), "The schedules go on."), { kind: "main-act" })
      : rows.length > 0 && button("Freeze all", freezing));
  const title = head(
    "Schedules",
    rows.length ? many(rows.length, "schedule") : null,
    rows.length > 5 && search,
    freeze,
  );
  if (!rows.length) {
    return [
      title,
      h(
        "div",
        { class: "card" },
        empty(
          "There are no schedules.",
          "They are declared in code, or made at run time with app.schedules.put(…).",
          '@app.recurring("0 9 * * mon-fri", timezone="America/New_York")\nasync def daily_report() -> None: ...',
        ),
      ),
    ];
  }
  const note =
    frozen &&
    h(
      "div",
      { class: "note warm gap-below", role: "alert" },
      "Everything stands still since ",
      when(frozen.frozen_at),
      ` by ${frozen.frozen_by}${frozen.freeze_reason ? `: ${frozen.freeze_reason}` : ""}.`,
    );
  const columns = [
    {
      name: "Schedule",
      cell: (row) => [
        h("a", { href: href("schedules/view", { name: row.name }) }, row.name),
        " ",
        row.state !== "active" && state(row.state, row.problem),
        h("span", { class: "under" }, row.description || row.rhythm),
      ],
    },
    {
      name: "Rhythm",
      spare: true,
      cell: (row) => [h("code", null, row.rhythm), h("span", { class: "under" }, row.timezone)],
    },
    {
      name: "Next",
      right: true,
      cell: (row) => (row.state === "active" && row.next_at ? when(row.next_at, "countdown") : "–"),
    },
    { name: "Last run", right: true, spare: true, cell: last },
    { name: "Lately", cell: (row) => strip(row.recent) },
    operates && { name: "", right: true, cell: (row) => h("span", { class: "row end" }, steer(row)) },
  ].filter(Boolean);
  return [
    title,
    note,
    h(
      "div",
      { class: "card" },
      table(columns, found, { key: (row) => row.name, open: (row) => go("schedules/view", { name: row.name }) }),
    ),
    !found.length && h("p", { class: "faint gap-above" }, "No schedule matches."),
  ];
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
  const trigger = () =>
    confirmed(
      `Run ${row.name} now?`,
      "Once, outside of its rhythm: the next occurrence stays as it is.",
      "Run it",
      () => post("schedules/trigger", { name: row.name }),
    );
  const going =
    row.state === "paused"
      ? button("Resume", () => attempt(() => post("schedules/resume", { name: row.name }), `${row.name} goes on.`), {
          kind: "small main-act",
        })
      : button("Pause", () => pausing(row.name), { kind: "small" });
  return [button("Run now", trigger, { kind: "small" }), row.state !== "retired" && row.state !== "finished" && going];
}

function pausing(name) {
  const values = { reason: "" };
  return ask({
    title: `Pause ${name}?`,
    label: "Pause",
    values,
    draw: () => [
      h(
        "p",
        { class: "soft" },
        "It stands still, through restarts and deploys, until somebody resumes it. What runs goes on; what nobody has begun is cancelled.",
      ),
      field(values, "reason", "Reason", { placeholder: "for the audit log" }),
    ],
    act: () => post("schedules/pause", { name, reason: values.reason }),
  });
}

function freezing() {
  const values = { reason: "" };
  return ask({
    title: "Freeze every schedule?",
    label: "Freeze",
    grave: true,
    values,
    draw: () => [
      h(
        "p",
        { class: "soft" },
        "No schedule of this app fires until it is thawed. What was due meanwhile is for each schedule's misfire policy.",
      ),
      field(values, "reason", "Reason", { placeholder: "for the audit log" }),
    ],
    act: () => post("schedules/freeze", { reason: values.reason }),
  });
}

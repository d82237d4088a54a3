/** Fan-outs and the progress of their shards. */

import { get, post } from "../api.js";
import { h } from "../view.js";
import { clock, count, span } from "../format.js";
import { ask, attempt, confirmed, field, tickBox } from "../parts/dialogs.js";
import { button, emptyCard, head, state, table, when } from "../parts/pieces.js";
import { href } from "../router.js";
import { watchScreen } from "./screen.js";

const LIMIT = 100;

/** Shows every work of every fan-out, and the shards of the opened one. */
export function fanouts(place, { context }) {
  const own = { open: null, cursors: null, behind: false };
  const screen = watchScreen(place, "fanouts", null, (found) => draw(found, own, context, () => screen.redraw()));
  return screen;
}

function draw({ rows }, own, context, redraw) {
  if (!rows.length) {
    return [
      head("Fan-out"),
      emptyCard(
        "No fan-outs.",
        "A planner names the shards, and every shard that is due gets a slice: a message, with a cursor that records its progress.",
        '@app.fanout("mailboxes", "sync", every="15m")\nasync def planner():\n    yield "alice"\n    yield "bob"',
      ),
    ];
  }
  return [
    head("Fan-out", `${rows.length} ${rows.length === 1 ? "work" : "works"}`),
    h(
      "div",
      { class: "stack" },
      rows.map((row) => work(row, own, context, redraw)),
    ),
  ];
}

function work(row, own, context, redraw) {
  const name = `${row.topic} ${row.work ?? ""}`;
  const open = own.open === name;
  const share = row.shards ? Math.round((20 * row.completed) / row.shards) * 5 : 0;
  const turn = async () => {
    own.open = open ? null : name;
    own.cursors = null;
    redraw();
    if (!open && row.work) await load(row, own, redraw);
  };
  return h(
    "section",
    { key: name, class: "card" },
    h(
      "header",
      null,
      h("h2", null, row.topic, row.work && h("span", { class: "faint" }, ` / ${row.work}`)),
      row.paused && state("paused"),
      !row.enabled && state("disabled"),
      row.coordinator && state("running", `${row.coordinator} is planning it`),
      h(
        "div",
        { class: "aside row" },
        row.next_window && ["next window ", when(row.next_window)],
        context.operates && [
          button("Plan now", () => plan(row), { kind: "small" }),
          row.work && button("Edit", () => edit(row), { kind: "small" }),
        ],
      ),
    ),
    h(
      "div",
      { class: "body stack" },
      h(
        "div",
        { class: "row" },
        h("b", null, `${count(row.completed)} of ${count(row.shards)} shards`),
        row.last_window ? ["completed ", clock(row.last_window)] : "no window yet",
        row.behind > 0 && h("span", { class: "wrong" }, `${count(row.behind)} behind`),
      ),
      h("div", { class: "progress" }, h("i", { class: `w-${share}` })),
      h(
        "div",
        { class: "row faint" },
        h("a", { href: href("schedules/view", { name: row.schedule }) }, row.rhythm ?? "no longer in any code"),
        row.every && ` at least ${span(row.every)} apart`,
        row.oldest && ["oldest shard at ", clock(row.oldest)],
        row.work && button(open ? "Hide the shards" : "Shards", turn, { kind: "small quiet" }),
      ),
      open && shards(row, own, redraw, context),
    ),
  );
}

async function load(row, own, redraw, cursor) {
  const page = await attempt(() =>
    get("fanouts/cursors", { topic: row.topic, work: row.work, behind: own.behind || undefined, cursor, limit: LIMIT }),
  );
  if (!page) return;
  own.cursors = cursor ? [...own.cursors, ...page.rows] : page.rows;
  own.next = page.cursor;
  redraw();
}

function shards(row, own, redraw, context) {
  if (!own.cursors) return h("p", { class: "faint" }, "Loading …");
  const only = tickBox("only shards behind", own.behind, (ticked) => ((own.behind = ticked), load(row, own, redraw)));
  if (!own.cursors.length)
    return h(
      "div",
      null,
      only,
      h("p", { class: "faint" }, own.behind ? "No shards behind." : "No shards planned yet."),
    );
  const columns = [
    { name: "Shard", cell: (each) => each.shard },
    { name: "Completed", right: true, cell: (each) => (each.completed ? clock(each.completed) : "none yet") },
    { name: "When", right: true, spare: true, cell: (each) => (each.completed_at ? when(each.completed_at) : "–") },
    { name: "Planned", right: true, cell: (each) => (each.planned ? clock(each.planned) : "–") },
    context.operates && {
      name: "",
      right: true,
      cell: (each) => button("Run", () => plan(row, each.shard), { kind: "small" }),
    },
  ];
  return h(
    "div",
    null,
    only,
    table(columns, own.cursors, { key: (each) => each.shard }),
    own.next && button("More", () => load(row, own, redraw, own.next)),
  );
}

function plan(row, shard) {
  const what = shard ? `shard ${shard}` : "every shard that is due";
  return confirmed(`Plan ${row.topic} now?`, `The window is the current time: ${what} gets a slice at once.`, "Plan it", () =>
    post("fanouts/run", { topic: row.topic, ...(row.work && { work: row.work }), ...(shard && { shard }) }),
  );
}

function edit(row) {
  const values = {
    every: row.every ? `${row.every}s` : "",
    jitter: row.jitter === null ? "" : `${row.jitter}s`,
    enabled: row.enabled,
  };
  return ask({
    title: `Edit ${row.topic} / ${row.work}`,
    label: "Save",
    values,
    draw: (_, redraw) => [
      h(
        "div",
        { class: "fields" },
        field(values, "every", "Minimum interval", { placeholder: "every window" }),
        field(values, "jitter", "Jitter", { placeholder: "60s" }),
      ),
      tickBox("planned", values.enabled, (ticked) => ((values.enabled = ticked), redraw())),
    ],
    act: () =>
      post("fanouts/edit", {
        topic: row.topic,
        work: row.work,
        enabled: values.enabled,
        ...(values.every && { every: values.every }),
        ...(values.jitter && { jitter: values.jitter }),
      }),
  });
}

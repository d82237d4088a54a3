/** Who handles what, how fast, and whether it may. */

import { post } from "../api.js";
import { h } from "../view.js";
import { capped, count, rate, span } from "../format.js";
import { ask, attempt, field } from "../parts/dialogs.js";
import { button, empty, facts, head, state, when } from "../parts/pieces.js";
import { href } from "../router.js";
import { watching } from "./watching.js";

/** Shows every declared consumer. */
export function consumers(place, { house }) {
  const open = new Set();
  const screen = watching(place, "consumers", null, (found) => draw(found, house, open, () => screen.redraw()));
  return screen;
}

function draw({ rows }, house, open, redraw) {
  if (!rows.length) {
    return [
      head("Consumers"),
      h(
        "div",
        { class: "card" },
        empty(
          "No consumer is declared yet.",
          "A worker declares its consumers when it starts.",
          '@app.consumer("orders.placed")\nasync def send_receipt(order: dict) -> None: ...\n\n$ mainspring worker shop:app',
        ),
      ),
    ];
  }
  const names = ["Consumer", "Ready", "Running", "Done", "Failing", "Run p95", "Dead", ""];
  const spare = new Set(["Running", "Failing", "Run p95"]);
  const heads = names.map((name, index) =>
    h("th", { scope: "col", class: `${index ? "right" : ""} ${spare.has(name) ? "spare" : ""}` }, name),
  );
  const body = rows.flatMap((row) => [line(row, house, open, redraw), open.has(row.group) && more(row)]);
  return [
    head("Consumers", `${rows.length} declared`),
    h(
      "div",
      { class: "card scroll" },
      h("table", null, h("thead", null, h("tr", null, heads)), h("tbody", null, body)),
    ),
  ];
}

function line(row, house, open, redraw) {
  const turn = (event) => {
    if (event.target.closest("a, .button")) return;
    if (!open.delete(row.group)) open.add(row.group);
    redraw();
  };
  const marks = [
    row.paused_at && state("paused", `${row.paused_by ?? ""} ${row.pause_reason ?? ""}`),
    row.tripped && state("tripped", "Its breaker is open: it failed too often"),
    !row.workers.length && state("unserved", "No worker serves it"),
  ];
  return h(
    "tr",
    { key: row.group, class: "link", onclick: turn },
    h(
      "td",
      null,
      h("button", { type: "button", class: "opener", "aria-expanded": String(open.has(row.group)) }, row.group),
      " ",
      marks,
      h("span", { class: "under" }, row.patterns.join(", ") || "only what is sent to it"),
    ),
    h(
      "td",
      { class: "right" },
      row.ready
        ? h("a", { href: href("messages", { group: row.group, state: "ready" }) }, capped(row.ready, 10_000))
        : "0",
      row.oldest_ready_at && h("span", { class: "under" }, when(row.oldest_ready_at, "age")),
    ),
    h("td", { class: "right spare" }, count(row.running + row.lapsed)),
    h("td", { class: "right" }, `${rate(row.rate)}/s`),
    h("td", { class: `right spare ${row.failing ? "wrong" : ""}` }, `${rate(row.failing)}/s`),
    h("td", { class: "right spare" }, span(row.run.p95)),
    h(
      "td",
      { class: "right" },
      row.dead ? h("a", { class: "wrong", href: href("dead", { group: row.group }) }, count(row.dead)) : "–",
    ),
    h("td", { class: "right" }, house.me.role === "operator" && steer(row)),
  );
}

function steer(row) {
  if (row.paused_at)
    return button(
      "Resume",
      () => attempt(() => post("consumers/resume", { group: row.group }), `${row.group} goes on.`),
      { kind: "small main-act" },
    );
  return button("Pause", () => pause(row.group), { kind: "small" });
}

function pause(group) {
  const values = { reason: "" };
  return ask({
    title: `Pause ${group}?`,
    label: "Pause",
    values,
    draw: () => [
      h(
        "p",
        { class: "soft" },
        "Its messages wait, through restarts and deploys, until somebody resumes it. What runs is finished.",
      ),
      field(values, "reason", "Reason", { placeholder: "for the audit log" }),
    ],
    act: () => post("consumers/pause", { group, reason: values.reason }),
  });
}

function more(row) {
  const options = Object.entries(row.options).map(([name, value]) => [name, h("code", null, value)]);
  return h(
    "tr",
    { key: `${row.group}-more` },
    h(
      "td",
      { colspan: 8 },
      h(
        "div",
        { class: "columns" },
        facts(
          ["handler", h("code", null, row.handler)],
          ["app", row.app],
          ["handled", `${count(row.handled)}, ${count(row.failed)} attempts failed`],
          ["due to start", quantiles(row.wait)],
          ["run time", quantiles(row.run)],
          ["workers", row.workers.join(", ") || "none"],
          ["served", row.served_at ? when(row.served_at) : "never"],
          ["declared", when(row.declared_at)],
          row.paused_at && [
            "paused",
            [when(row.paused_at), ` by ${row.paused_by}${row.pause_reason ? `: ${row.pause_reason}` : ""}`],
          ],
        ),
        options.length ? facts(...options) : h("p", { class: "faint" }, "All options at their defaults."),
      ),
    ),
  );
}

function quantiles(found) {
  return found.p50 === null
    ? "nothing lately"
    : `p50 ${span(found.p50)}, p95 ${span(found.p95)}, p99 ${span(found.p99)}`;
}

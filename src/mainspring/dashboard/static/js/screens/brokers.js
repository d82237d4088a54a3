/** Brokers: routes out and intakes in, their connections, what waits, and what was sent and received. */

import { post } from "../api.js";
import { h } from "../view.js";
import { capped, count, span } from "../format.js";
import { attempt } from "../parts/dialogs.js";
import { breakable, button, card, consumerLink, emptyCard, head, state, table, when } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { href } from "../router.js";
import { watchScreen } from "./screen.js";

const EXAMPLE = `app.route("orders.*", to=RabbitMQ("amqp://localhost/", exchange="shop"))

@app.consumer("orders.placed", source=RabbitMQ("amqp://localhost/", queue="billing"))
async def bill(order: dict) -> None: ...`;
const PRODUCTS = { rabbitmq: "RabbitMQ", kafka: "Kafka", redis: "Redis", nats: "NATS", mainspring: "Mainspring" };
const HINTS = {
  idle: "It connects with the next message",
  unserved: "No live worker has it",
};

/** Shows every route and intake. */
export function brokers(place, { query, context }) {
  const filter = new RowFilter("brokers", query, { redraw: () => screen.redraw() });
  const checked = { rows: null, busy: false };

  async function check() {
    checked.busy = true;
    screen.redraw();
    checked.rows = (await attempt(() => post("brokers/check")))?.rows ?? checked.rows;
    checked.busy = false;
    screen.redraw();
  }

  function dismiss() {
    checked.rows = null;
    screen.redraw();
  }

  const screen = watchScreen(place, "brokers", null, (found) => [
    draw(found, context, filter, checked, check),
    checked.rows && results(checked.rows, dismiss),
  ]);
  return screen;
}

function draw({ rows, cap, checkable }, context, filter, { busy }, check) {
  if (!rows.length) {
    return [
      head("Brokers"),
      emptyCard(
        "No routes and no intakes.",
        "A route sends what is published here to RabbitMQ, Kafka, Redis, NATS or another database. An intake reads from one of them. Neither changes how you publish and consume.",
        EXAMPLE,
      ),
    ];
  }
  const found = filter.found(rows, (row) => `${row.name} ${row.kind} ${row.url} ${row.topics.join(" ")} ${row.condition}`);
  const [routes, intakes] = [found.filter((row) => row.direction === "out"), found.filter((row) => row.direction === "in")];
  return [
    head(
      "Brokers",
      summary(rows),
      filter.box("Find a broker"),
      context.operates &&
        checkable &&
        button(busy ? "Checking …" : "Check", check, {
          disabled: busy,
          title: "Connect to each broker from this process, and see what is missing there",
        }),
    ),
    found.filter((row) => row.error).map(outage),
    routes.length > 0 && part("Out: routes", routeColumns(cap), routes, filter),
    intakes.length > 0 && part("In: intakes", intakeColumns(cap), intakes, filter),
    !found.length && h("p", { class: "faint" }, "No matches."),
  ];
}

function summary(rows) {
  const of = (condition) => rows.filter((row) => row.condition === condition).length;
  const parts = [`${of("connected")} of ${rows.length} connected`];
  if (of("down")) parts.push(`${of("down")} down`);
  if (of("unserved")) parts.push(`${of("unserved")} without a worker`);
  return parts.join(", ");
}

/** Why workers cannot connect, as a note. */
function outage(row) {
  const text = [
    h("b", null, breakable(row.name)),
    ` is not connected on ${row.workers - row.connected} of ${workers(row)}, for `,
    when(row.down_since, "age"),
    ": ",
    breakable(row.error),
  ];
  return h("div", { key: `outage ${row.group}`, class: "note grave gap-below", role: "alert" }, h("div", null, text));
}

function part(title, columns, rows, filter) {
  const since = h("span", { class: "wide-only" }, "counted since the workers started");
  return h(
    "div",
    { class: "gap-below" },
    card(title, since, table(columns, filter.sorted(rows, columns), { key: (row) => row.group, filter })),
  );
}

function routeColumns(cap) {
  return [
    identity("Route", "sends"),
    broker(),
    condition(),
    {
      name: "Waiting",
      right: true,
      by: (row) => row.waiting,
      cell: (row) => [
        row.waiting
          ? h("a", { href: href("messages", { group: row.group }) }, capped(row.waiting, cap))
          : "0",
        row.oldest_ready_at && h("div", { class: "wide-only" }, h("span", { class: "under" }, when(row.oldest_ready_at, "age"))),
      ],
    },
    number("Sent", "sent", { spare: true }),
    number("Put off", "later", { spare: true, title: "Sent again later, since the broker was away or could not take them" }),
    number("Rejected", "rejected", { spare: true, wrong: true }),
    dead(cap),
  ];
}

function intakeColumns(cap) {
  return [
    identity("Intake", "stores"),
    broker(),
    condition(),
    {
      name: "Waiting",
      right: true,
      by: (row) => row.lag,
      cell: (row) =>
        row.lag === null ? h("span", { class: "faint", title: "The broker does not say, or is not connected" }, "–") : count(row.lag),
    },
    number("Stored", "stored", { spare: true }),
    number("Received", "received", { spare: true }),
    number("Repeats", "repeat", { spare: true, title: "Received again, and not stored again" }),
    dead(cap),
  ];
}

function identity(title, verb) {
  return {
    name: title,
    by: (row) => row.name,
    cell: (row) => [
      h("b", null, consumerLink(row.group, breakable(row.name))),
      " ",
      row.paused_at && state("paused"),
      h("span", { class: "under" }, `${verb} `, row.topics.length ? breakable(row.topics.join(", ")) : "what its types name"),
    ],
  };
}

function broker() {
  return {
    name: "Broker",
    spare: true,
    by: (row) => row.kind,
    cell: (row) => [PRODUCTS[row.kind] || row.kind, h("span", { class: "under" }, breakable(row.url))],
  };
}

function condition() {
  return {
    name: "State",
    by: (row) => row.condition,
    cell: (row) => [
      state(row.condition, HINTS[row.condition] ?? row.error),
      h("span", { class: "under nowrap" }, where(row)),
      reconnects(row),
    ],
  };
}

function reconnects({ counts: { reconnected } }) {
  return reconnected && h("span", { class: "under nowrap" }, reconnected === 1 ? "1 reconnect" : `${count(reconnected)} reconnects`);
}

function where(row) {
  if (row.condition === "unserved") return "no worker";
  return row.condition === "idle" ? `not used by ${workers(row)}` : `on ${row.connected} of ${workers(row)}`;
}

function workers(row) {
  return row.workers === 1 ? "1 worker" : `${row.workers} workers`;
}

function number(title, event, { wrong = false, ...more } = {}) {
  const value = (row) => row.counts[event] ?? 0;
  return {
    name: title,
    right: true,
    ...more,
    by: value,
    cell: (row) => h("span", { class: wrong && value(row) ? "wrong" : "", title: more.title }, count(value(row))),
  };
}

function dead(cap) {
  return {
    name: "Dead",
    right: true,
    by: (row) => row.dead,
    cell: (row) =>
      row.dead ? h("a", { class: "wrong", href: href("dead", { group: row.group }) }, capped(row.dead, cap)) : "–",
  };
}

/** What a check has found, the wrong ones first. */
function results(rows, dismiss) {
  const sorted = [...rows].sort((one, other) => other.findings.length - one.findings.length);
  const wrong = rows.filter((row) => row.findings.length).length;
  const items = sorted.map((row) =>
    h(
      "li",
      { key: `${row.direction} ${row.name}` },
      h("div", { class: "verdict" }, state(row.findings.length ? "problem" : "ok")),
      h(
        "div",
        { class: "grow" },
        h("b", null, breakable(row.name)),
        row.findings.map(({ problem }) => h("div", { class: "wrong" }, problem)),
        !row.findings.length &&
          h(
            "div",
            { class: "faint" },
            `${PRODUCTS[row.kind] || row.kind} responded in ${span(row.took)}`,
            row.lag !== null && `, ${count(row.lag)} waiting there`,
          ),
      ),
    ),
  );
  const title = wrong ? `Checked: ${wrong} of ${rows.length} with problems` : `Checked: all ${rows.length} are well`;
  return card(title, button("Dismiss", dismiss, { kind: "small quiet" }), h("ul", { class: "list" }, items));
}

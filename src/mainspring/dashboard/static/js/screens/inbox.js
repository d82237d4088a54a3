/** The inbox: messages received from external systems, each admitted once. */

import { get, post } from "../api.js";
import { h } from "../view.js";
import { count } from "../format.js";
import { attempt, confirmed } from "../parts/dialogs.js";
import { button, empty, emptyCard, head, name, table, when } from "../parts/pieces.js";
import { Pages } from "../pages.js";
import { rewrite } from "../router.js";
import { watchScreen } from "./screen.js";

const LIMIT = 100;
/** What is shown, by tab; "stuck" is in processing for longer than an hour. */
const TABS = ["any", "processing", "stuck", "seen", "done", "dead"];
const WORDS = { seen: "failed" };
const FIELDS = [
  ["message_id", "Sender's id"],
  ["source", "Source"],
  ["group", "Group"],
];

/** Shows the messages received, the latest change first; the filter is in the URL. */
export function inbox(place, { query, context }) {
  const filter = { status: TABS.includes(query.status) ? query.status : "any" };
  for (const [field] of FIELDS) filter[field] = query[field] ?? "";
  let pages = fresh();
  let timer = null;

  function request() {
    const { status, ...rest } = filter;
    if (status === "stuck") return { ...rest, stuck: true, limit: LIMIT };
    return { ...rest, status: status === "any" ? "" : status, limit: LIMIT };
  }

  function set(field, value, delay = 300) {
    filter[field] = value;
    rewrite("inbox", { ...filter, status: filter.status === "any" ? "" : filter.status });
    clearTimeout(timer);
    timer = setTimeout(() => {
      pages = fresh();
      screen.ask(request());
    }, delay);
    screen.redraw();
  }

  async function more() {
    await pages.more((cursor) => attempt(() => get("inbox", { ...request(), cursor })));
    screen.redraw();
  }

  const screen = watchScreen(place, "inbox", request(), (found) => {
    pages.fresh(found.rows, found.cursor);
    return draw(pages, filter, set, more, context);
  });
  return { ...screen, leave: () => (clearTimeout(timer), screen.leave()) };
}

function fresh() {
  return new Pages(key, (row, last) => Date.parse(row.changed_at) < Date.parse(last.changed_at));
}

function key(row) {
  return JSON.stringify([row.group, row.source, row.message_id]);
}

function draw(pages, filter, set, more, context) {
  const rows = pages.all();
  const filtered = filter.status !== "any" || FIELDS.some(([field]) => filter[field]);
  if (!rows.length && !filtered) {
    return [
      head("Inbox"),
      emptyCard(
        "No messages received.",
        "The inbox admits each external message once, however often it is sent.",
        'async with app.inbox.once(event_id, "stripe") as admission:\n    if admission:\n        ...',
      ),
    ];
  }
  return [
    head("Inbox", null, tabs(filter, set)),
    h(
      "div",
      { class: "filters open" },
      FIELDS.map(([field, label], index) =>
        h("input", {
          key: field,
          type: "search",
          placeholder: label,
          "aria-label": label,
          "data-search": index === 0,
          value: filter[field],
          oninput: ({ target }) => set(field, target.value.trim()),
        }),
      ),
    ),
    h(
      "div",
      { class: "card" },
      rows.length ? table(columnsOf(context), rows, { key }) : empty("No matches.", "Remove a filter, or choose another status."),
    ),
    pages.cursor !== null && h("p", { class: "row gap-above" }, button("More", more, { disabled: pages.loading })),
  ];
}

function tabs(filter, set) {
  const one = (status) =>
    h(
      "button",
      { type: "button", "aria-pressed": String(filter.status === status), onclick: () => set("status", status, 0) },
      WORDS[status] ?? status,
    );
  return h("div", { class: "tabs", role: "group", "aria-label": "Status" }, TABS.map(one));
}

function columnsOf(context) {
  return [
    { name: "Status", cell: (row) => h("span", { class: `state ${row.status}` }, WORDS[row.status] ?? row.status) },
    {
      name: "Message",
      cell: (row) => [
        h("span", { class: "mono id" }, name(row.message_id)),
        h("span", { class: "under" }, name(`from ${row.source}`)),
        row.error && h("span", { class: "narrow-only error" }, row.error),
      ],
    },
    { name: "Group", spare: true, cell: (row) => name(row.group) },
    {
      name: "",
      fill: true,
      cell: (row) => [
        row.error && h("div", { class: "cut error", title: row.error }, row.error),
        row.mismatched_at && h("div", { class: "cut wrong" }, "sent again with another hash ", when(row.mismatched_at)),
      ],
    },
    { name: "Attempts", right: true, spare: true, cell: (row) => count(row.attempts) },
    { name: "First seen", right: true, spare: true, cell: (row) => when(row.first_seen_at) },
    { name: "Changed", right: true, cell: (row) => when(row.changed_at) },
    context.operates && {
      name: "",
      right: true,
      cell: (row) =>
        (row.status === "processing" || row.status === "dead") &&
        button("Release", () => release(row), { kind: "small grave" }),
    },
  ];
}

function release({ group, source, message_id }) {
  return confirmed(
    `Release ${message_id}?`,
    "It is admitted when it is sent again. If its handler is still running, it may be processed twice.",
    "Release",
    () => post("inbox/release", { group, source, message_id }),
    { grave: true },
  );
}

/** Open joins, and one of them with the members it waits for. */

import { get, post } from "../api.js";
import { watch } from "../watch.js";
import { h } from "../view.js";
import { clock, count, many } from "../format.js";
import { attempt, confirmedWithReason, toast } from "../parts/dialogs.js";
import { button, card, consumerLink, empty, emptyCard, facts, head, messageLink, state, table, when } from "../parts/pieces.js";
import { Pages } from "../pages.js";
import { href } from "../router.js";
import { pagedScreen, watchScreen } from "./screen.js";

/** Shows every open join, oldest first. */
export function joins(place, { query, context, go }) {
  const order = { key: (row) => row.id, behind: (row, last) => row.id > last.id };
  return pagedScreen(place, "joins", { sort: query.sort }, order, (found) => draw(found, context, go));
}

function draw({ rows, all, more }, context, go) {
  if (!rows.length && all) {
    return [
      head("Joins"),
      emptyCard(
        "No open joins.",
        "A join is open until all of its messages have ended; then its follow-up is published.",
        "await app.join([(resize, photo) for photo in photos], then=(publish_album, \"Summer\"))",
      ),
    ];
  }
  const columns = [
    { name: "Join", cell: (row) => [joinLink(row.id), row.key && h("span", { class: "under cut key", title: row.key }, row.key)] },
    { name: "Ended", right: true, cell: (row) => [`${count(row.ended)} of ${count(row.members)}`, failed(row)] },
    { name: "Then", spare: true, cell: (row) => follower(row.then) },
    { name: "If any failed", spare: true, cell: (row) => follower(row.otherwise) },
    { name: "Waits for", fill: true, cell: (row) => h("div", { class: "cut" }, awaited(row.oldest)) },
    { name: "Open", right: true, cell: (row) => when(row.opened_at, "age") },
    context.operates && {
      name: "",
      right: true,
      spare: true,
      cell: (row) => button("Cancel", () => cancel(row), { kind: "small grave" }),
    },
  ];
  return [
    head("Joins", `${all ? "" : "the first "}${many(rows.length, "open join")}`),
    h("div", { class: "card" }, table(columns, rows, { key: (row) => row.id, open: (row) => go(`joins/${row.id}`) })),
    !all && h("p", { class: "row gap-above" }, more),
  ];
}

function joinLink(id) {
  return h("a", { href: href(`joins/${id}`), class: "mono nowrap", title: id }, `…${id.slice(-8)}`);
}

function failed(row) {
  return row.failed > 0 && h("span", { class: "under error" }, `${count(row.failed)} failed`);
}

function follower(to) {
  if (!to) return h("span", { class: "faint" }, "nothing");
  return to.group ? consumerLink(to.group) : to.topic;
}

function awaited(oldest) {
  if (!oldest) return h("span", { class: "faint" }, "all have ended");
  return [messageLink(oldest.message_id, oldest.topic), " ", state(oldest.state)];
}

async function cancel(row) {
  const left = many(row.members - row.ended, "unfinished message");
  const done = await confirmedWithReason(
    "Cancel this join?",
    `Its ${left} are cancelled, and running handlers are asked to stop. Then what follows a failure is published.`,
    "Cancel the join",
    (reason) => post(`joins/${row.id}/cancel`, { reason }),
    { grave: true },
  );
  if (done) toast(`${count(done.cancelled)} cancelled, ${count(done.asked)} asked to stop.`);
}

/** Shows one open join, live, with its members that have not ended. */
export function join(place, { id, context }) {
  const pages = new Pages(
    (row) => row.seq,
    (row, last) => row.seq > last.seq,
  );
  const unwatch = watch(`joins/${id}/members`, { limit: 100 }, {
    data(found) {
      pages.fresh(found.rows, found.cursor);
      screen.redraw();
    },
  });
  const more = async () => {
    await pages.more((cursor) => attempt(() => get(`joins/${id}/members`, { cursor, limit: 100 })));
    screen.redraw();
  };
  const screen = watchScreen(place, `joins/${id}`, null, (row) => one(row, pages, more, context), over);
  return { ...screen, leave: () => (unwatch(), screen.leave()) };
}

function over() {
  return h("p", { class: "gap-above" }, h("a", { href: href("joins") }, "All open joins"));
}

function one(row, pages, more, context) {
  return [
    h("p", { class: "crumb" }, h("a", { href: href("joins") }, "Joins"), " / ", h("span", { class: "mono" }, row.id)),
    head(
      "Join",
      [`${count(row.ended)} of ${many(row.members, "message")} ended`, row.failed > 0 && `, ${count(row.failed)} failed`],
      context.operates && button("Cancel", () => cancel(row), { kind: "grave" }),
    ),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, members(pages, more)),
      h(
        "div",
        { class: "stack" },
        card(
          "What follows",
          null,
          h(
            "div",
            { class: "body" },
            facts(
              ["if all are done", follower(row.then)],
              ["if any failed", follower(row.otherwise)],
              ["opened", [clock(row.opened_at), " · ", when(row.opened_at)]],
              ["key", row.key],
              [
                "correlation",
                row.correlation_id &&
                  h(
                    "a",
                    { href: href("messages", { state: "any", correlation_id: row.correlation_id }) },
                    h("code", null, row.correlation_id),
                  ),
              ],
            ),
          ),
        ),
      ),
    ),
  ];
}

function members(pages, more) {
  const rows = pages.all();
  if (!rows.length) return card("Unfinished messages", null, empty("None.", "All have ended; the follow-up is about to be published."));
  const columns = [
    { name: "State", cell: (row) => state(row.state) },
    { name: "Topic", cell: (row) => [messageLink(row.message_id, row.topic), h("span", { class: "under" }, row.group)] },
    { name: "Attempt", right: true, spare: true, cell: (row) => row.attempt || "" },
    {
      name: "",
      fill: true,
      cell: (row) => h("div", { class: "cut soft" }, row.cancel_asked ? "asked to stop" : (row.progress ?? row.held_by)),
    },
    { name: "Due", right: true, cell: (row) => when(row.due_at) },
  ];
  return card(
    "Unfinished messages",
    null,
    table(columns, rows, { key: (row) => row.seq }),
    pages.cursor !== null && h("div", { class: "body" }, button("More", more, { disabled: pages.loading })),
  );
}

/** Dead letters by cause, to revive or discard together. */

import { h } from "../view.js";
import { count, many } from "../format.js";
import { Bulk } from "../parts/bulk.js";
import { History } from "../parts/history.js";
import { button, consumerLink, emptyCard, head, when } from "../parts/pieces.js";
import { href } from "../router.js";
import { watchScreen } from "./screen.js";

/** Shows the causes of all consumers or of one. */
export function dead(place, { query, context, go }) {
  const bulk = new Bulk(
    () => screen.redraw(),
    () => bulk.history.load(),
  );
  bulk.history = new History(() => screen.redraw());
  const screen = watchScreen(place, "dead/causes", { group: query.group }, (found) =>
    draw(found, query.group, context, bulk, go),
  );
  bulk.resume();
  return {
    leave() {
      screen.leave();
      bulk.leave();
      bulk.history.leave();
    },
  };
}

function draw({ rows, more }, group, context, bulk, go) {
  const total = rows.reduce((sum, row) => sum + row.count, 0);
  const counted = `${many(total, "delivery", "deliveries")}${rows.some((row) => row.more) ? " or more" : ""}`;
  const filter = { state: "dead", ...(group && { group }) };
  const acts = context.operates && total > 0;
  const title = head(
    "Dead letters",
    total
      ? `${counted} of ${many(rows.length, "cause")}${more ? ", and more" : ""}${group ? ` in ${group}` : ""}`
      : group && `of ${group}`,
    group && button("All consumers", () => go("dead"), { kind: "quiet" }),
    acts && button("Revive all", () => bulk.start("revive", filter, "all dead letters here"), { kind: "main-act" }),
    acts && button("Discard all", () => bulk.start("discard", filter, "all dead letters here"), { kind: "grave" }),
  );
  if (!rows.length) {
    return [
      title,
      emptyCard(
        "No dead letters.",
        "Deliveries without attempts left are kept here with their payload and every error, grouped by cause, until they are revived or discarded.",
      ),
      bulk.view(),
      bulk.history.view(),
    ];
  }
  return [
    title,
    h(
      "div",
      { class: "card" },
      rows.map((row) => cause(row, context, bulk)),
    ),
    bulk.view(),
    bulk.history.view(),
  ];
}

function cause(row, context, bulk) {
  const filter = { state: "dead", group: row.group, fingerprint: row.fingerprint };
  const what = `${many(row.count, "dead letter")} of ${row.group}`;
  return h(
    "article",
    { key: `${row.group}-${row.fingerprint}`, class: "cause" },
    h(
      "div",
      { class: "row" },
      h("span", { class: "figure" }, `${count(row.count)}${row.more ? "+" : ""}`),
      h("b", null, consumerLink(row.group)),
      row.kind !== "error" && h("span", { class: "state" }, row.kind),
      h("span", { class: "faint" }, "last ", when(row.last_at), row.count > 1 && [", first ", when(row.first_at)]),
    ),
    h("div", { class: "error" }, row.error),
    h(
      "div",
      { class: "row" },
      h("a", { class: "button small", href: href("messages", filter) }, "Show"),
      context.operates && [
        button("Revive", () => bulk.start("revive", filter, what), { kind: "small" }),
        button("Discard", () => bulk.start("discard", filter, what), { kind: "small grave" }),
      ],
    ),
  );
}

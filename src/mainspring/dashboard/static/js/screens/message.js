/** One message: payload, deliveries, attempts, and its chain of causation. */

import { post } from "../api.js";
import { h } from "../view.js";
import { between, bytes, clock, span } from "../format.js";
import { ACTIONS, each as doing, question } from "../parts/bulk.js";
import { attempt, confirmed, toast } from "../parts/dialogs.js";
import { button, card, consumerLink, facts, head, messageLink, state, when } from "../parts/pieces.js";
import { href } from "../router.js";
import { copy, edit } from "./publish.js";
import { watchScreen } from "./screen.js";
import "../parts/tree.js";

/** Shows one message, live. */
export function message(place, { id, context, go }) {
  return watchScreen(place, `messages/${id}`, null, (found) => draw(found, context, go));
}

function draw(found, context, go) {
  return [
    h(
      "p",
      { class: "crumb" },
      h("a", { href: href("messages") }, "Messages"),
      " / ",
      h("span", { class: "mono" }, found.id),
    ),
    head(
      found.topic,
      found.key && ["key ", h("b", null, found.key)],
      context.operates && actions(found, go),
    ),
    successors(found),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, deliveries(found, context), timeline(found), payload(found)),
      h("div", { class: "stack" }, about(found), headers(found), chain(found)),
    ),
  ];
}

/** Where a dead letter went that was revived with another payload, and where this message came from. */
function successors(found) {
  const [replaced, replaces] = [found.replaced_by, found.replaces];
  return [
    replaced.length > 0 &&
      h(
        "p",
        { class: "note gap-below" },
        h("span", null, "Revived with another payload as ", replaced.map((id, index) => [index > 0 && ", ", messageLink(id)]), "."),
      ),
    replaces && h("p", { class: "note gap-below" }, h("span", null, "It replaces the dead letter ", messageLink(replaces), ".")),
  ];
}

function actions(found, go) {
  const states = new Set(found.deliveries.map((each) => each.state));
  const retry = async () => {
    const done = await attempt(() => post(`messages/${found.id}/retry`));
    if (done) toast("It is due now.");
  };
  const cancel = () =>
    confirmed(
      "Cancel this message?",
      "Waiting deliveries are cancelled; running handlers are asked to stop.",
      "Cancel the message",
      () => post(`messages/${found.id}/cancel`),
      { grave: true },
    );
  const discard = () =>
    confirmed(
      "Discard its dead letters?",
      "They are permanently deleted. This cannot be undone.",
      "Discard",
      () => post(`messages/${found.id}/discard`),
      { grave: true },
    );
  const alive = states.has("ready") || states.has("scheduled") || states.has("running") || states.has("lapsed");
  return [
    (states.has("dead") || states.has("scheduled")) &&
      button(states.has("dead") ? "Revive" : "Run now", retry, { kind: "main-act" }),
    states.has("dead") && button("Edit and revive", () => edit(found, go)),
    button("Copy and edit", () => copy(found, go)),
    (alive || states.has("parked")) && button("Cancel", cancel, { kind: "grave" }),
    states.has("dead") && button("Discard", discard, { kind: "grave" }),
  ];
}

function deliveries(found, context) {
  const all = [...found.deliveries, ...found.done];
  if (!all.length) {
    return h(
      "p",
      { class: "note" },
      found.runs.length
        ? "Every consumer has settled it; kept runs are below."
        : "Every consumer has settled it, and no runs were kept.",
    );
  }
  const rows = all.map((each) =>
    h(
      "li",
      { key: `${each.group}-${each.seq}` },
      state(each.state),
      h(
        "div",
        { class: "grow" },
        h("b", null, each.group ? consumerLink(each.group) : "parked: this topic has no consumer yet"),
        h("div", { class: "faint" }, status(each)),
        each.error && h("div", { class: "error" }, each.error),
      ),
      (each.held_by ?? each.node) && h("span", { class: "faint cut" }, each.held_by ?? each.node),
      context.operates && found.deliveries.length > 1 && steer(each),
    ),
  );
  return card("Deliveries", null, h("ul", { class: "list" }, rows));
}

/** The actions on this delivery alone. */
function steer(each) {
  const actions = ACTIONS[each.state] ?? [];
  const one = (action) => button(question(action)[0], () => doing(action, [each]), { kind: "small" });
  return h("span", { class: "row" }, actions.map(one));
}

function status(each) {
  const parts = [];
  if (each.attempt) parts.push(`attempt ${each.attempt}`);
  if (each.deaths) parts.push(`deaths: ${each.deaths}`);
  if (each.state === "scheduled" || each.state === "ready") parts.push(["due ", when(each.due_at)]);
  if (each.state === "dead") parts.push(["buried ", when(each.buried_at)]);
  if (each.state === "done") parts.push(["handled ", when(each.finished_at)]);
  if (each.state === "running") parts.push(["its claim lasts ", when(each.due_at, "countdown"), " more"]);
  if (each.state === "lapsed") parts.push(["its claim lapsed ", when(each.due_at), ", it waits to be taken over"]);
  if (each.cancel_asked) parts.push("asked to stop");
  if (each.progress) parts.push(`“${each.progress}”`);
  return parts.flatMap((part, index) => (index ? [" · ", part] : [part]));
}

function timeline(found) {
  const first = found.deliveries[0] ?? found.runs[0];
  const later = first && between(found.published_at, first.scheduled_for ?? found.published_at) > 0.5;
  return card(
    "Attempts",
    null,
    h(
      "div",
      { class: "body" },
      h(
        "ol",
        { class: "timeline" },
        h(
          "li",
          { key: "published" },
          h("b", null, "Published "),
          h("span", { class: "faint" }, clock(found.published_at), " · ", when(found.published_at)),
        ),
        later &&
          h(
            "li",
            { key: "due", class: "scheduled" },
            h("b", null, "Requested for "),
            h("span", { class: "faint" }, clock(first.scheduled_for)),
          ),
        [...found.runs].sort((one, other) => one.started_at.localeCompare(other.started_at)).map(run),
        found.deliveries
          .filter((each) => each.state !== "dead")
          .map((each) =>
            h(
              "li",
              { key: `now-${each.group}`, class: each.state },
              h("b", null, each.state),
              " ",
              each.group,
              " ",
              h("span", { class: "faint" }, status(each)),
            ),
          ),
      ),
    ),
  );
}

function run(each) {
  return h(
    "li",
    { key: each.id, class: each.status },
    h("b", null, each.status === "dead" ? "dead" : each.status),
    " ",
    consumerLink(each.group),
    " ",
    h(
      "span",
      { class: "faint" },
      `attempt ${each.attempt} · ${clock(each.started_at)} · ran ${span(between(each.started_at, each.finished_at))}${each.node ? ` · ${each.node}` : ""}`,
    ),
    each.output && h("div", null, each.output),
    each.error &&
      h(
        "div",
        { class: "error" },
        each.kind && each.kind !== "error" && !each.error.toLowerCase().startsWith(each.kind)
          ? `${each.kind}: ${each.error}`
          : each.error,
      ),
    each.traceback &&
      h(
        "details",
        { open: each.status === "dead" },
        h("summary", null, "Traceback"),
        h("pre", { class: "trace" }, each.traceback),
      ),
  );
}

function payload(found) {
  const { kind, value, text, truncated } = found.payload;
  const body =
    kind === "json" && text !== null ? h("ms-tree", { ".value": text }) : h("pre", { class: "trace" }, written(value));
  const note = truncated && h("p", { class: "faint" }, "Truncated.");
  return card("Payload", `${found.content_type} · ${bytes(found.size)}`, h("div", { class: "body" }, body, note));
}

function written(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function about(found) {
  return card(
    "Message",
    null,
    h(
      "div",
      { class: "body" },
      facts(
        ["id", [h("code", null, found.id), " ", copied(found.id)]],
        ["topic", found.topic],
        ["key", found.key],
        ["published", clock(found.published_at)],
        ["expires", found.expires_at && when(found.expires_at)],
        ["correlation", found.correlation_id && related(found.correlation_id)],
        ["caused by", found.causation_id && messageLink(found.causation_id)],
      ),
    ),
  );
}

/** All messages of the same operation. */
function related(id) {
  return h("a", { href: href("messages", { state: "any", correlation_id: id }) }, h("code", null, id));
}

function copied(text) {
  const report = () => toast("Copied.");
  return button("Copy", () => navigator.clipboard.writeText(text).then(report), { kind: "small quiet" });
}

function headers(found) {
  const pairs = Object.entries(found.headers ?? {});
  if (!pairs.length) return null;
  return card(
    "Headers",
    null,
    h("div", { class: "body" }, facts(...pairs.map(([name, value]) => [name, h("code", null, value)]))),
  );
}

function chain(found) {
  const { causes, caused, more } = found.chain;
  if (!causes.length && !caused.length) return null;
  const depths = new Map([[found.id, causes.length]]);
  const rows = [
    ...causes.map((link, index) => ({ link, depth: index })),
    { link: { id: found.id, topic: found.topic }, depth: causes.length, here: true },
    ...ordered(caused, found.id).map((link) => {
      const depth = (depths.get(link.causation_id) ?? causes.length) + 1;
      depths.set(link.id, depth);
      return { link, depth };
    }),
  ];
  const items = rows.map(({ link, depth, here }) =>
    h(
      "li",
      { key: link.id, class: `depth-${Math.min(depth, 5)}` },
      here ? h("span", { class: "here" }, link.topic) : messageLink(link.id, link.topic),
      " ",
      link.state && state(link.state),
    ),
  );
  return card(
    "Chain",
    null,
    h("div", { class: "body" }, h("ul", { class: "chain" }, items), more && h("p", { class: "faint" }, "… and more")),
  );
}

/** The messages it caused, as a tree. */
function ordered(links, root) {
  const children = Map.groupBy ? Map.groupBy(links, (link) => link.causation_id) : grouped(links);
  const walk = (id) => (children.get(id) ?? []).flatMap((link) => [link, ...walk(link.id)]);
  return walk(root);
}

function grouped(links) {
  const found = new Map();
  for (const link of links) found.set(link.causation_id, [...(found.get(link.causation_id) ?? []), link]);
  return found;
}

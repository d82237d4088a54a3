/** Dialogs that create a schedule, or edit one: with a preview of its next times. */

import { post } from "../api.js";
import { h } from "../view.js";
import { ask, attempt, field, select, toast } from "../parts/dialogs.js";
import { button } from "../parts/pieces.js";
import { checked, editor } from "../parts/json.js";
import { local } from "./deliveries.js";
import { BLANK, Preview, dueFields, ruleFields, sent, timing } from "./rhythm.js";

const MISFIRE = { latest: "one run", skip: "none", all: "all of them" };
const OVERLAP = { skip: "skip", queue: "wait for its end", allow: "run beside it", cancel: "cancel that one" };
/** The priorities, by their numbers. */
export const PRIORITIES = ["urgent", "high", "normal", "low"];
/** Empty: as the app decides. */
const POLICIES = {
  misfire: "latest",
  misfire_after: "",
  catch_up: "100",
  overlap: "skip",
  jitter: "0s",
  priority: "normal",
};
/** How its runs are handled, and what they carry: empty values set nothing. */
const RUNS = {
  only_if: "",
  retry: "",
  timeout: "",
  dead: "",
  then: "",
  failed: "",
  key: "",
  correlation_id: "",
  headers: "",
};
/** What overrides a field with nothing; other fields are reset to what is beneath an edit. */
const NOTHING = {
  workdays: "none",
  holidays: "none",
  only_if: "",
  then: "",
  failed: "",
  key: "",
  correlation_id: "",
  headers: {},
};
const ONLY_IF = { "": "always", "queue empty": "if its queue is empty" };
const DEAD = { "": "as the app decides", latest: "the latest, with a count", all: "all" };
const AGAIN = "recurring";
const ONCE = "once";

/** Create a schedule; `given` are fields that are known already. */
export async function creating(context, go, given = {}) {
  const values = { name: "", consumer: "", topic: "", how: AGAIN, at: "", payload: "", ...BLANK, ...POLICIES, ...RUNS, ...given };
  const preview = new Preview(
    () => values.rhythm && { ...timing(values), count: 10 },
    () => h("p", { class: "faint" }, "Its next times appear here."),
  );
  const groups = (context.overview?.groups ?? []).map((group) => h("option", { key: group.group, value: group.group }));
  const done = await ask({
    title: "New schedule",
    label: "Create",
    wide: true,
    values,
    draw(_, redraw) {
      const refresh = () => preview.load(redraw);
      if (!preview.requests) refresh();
      const once = values.how === ONCE;
      return [
        h(
          "div",
          { class: "fields" },
          field(values, "name", "Name", { placeholder: "nightly_report" }),
          select(values, "how", "When", [AGAIN, ONCE], redraw),
        ),
        h(
          "div",
          { class: "fields" },
          field(values, "consumer", "Consumer", { list: "targets", hint: "the group to run" }),
          !once && field(values, "topic", "Topic", { hint: "instead: all its subscribers" }),
          h("datalist", { id: "targets" }, groups),
        ),
        once
          ? field(values, "at", "At", { type: "datetime-local", hint: "by your own clock" })
          : [dueFields(values, refresh), preview.view()],
        !once && folded("Policies", policyFields(values), ruleFields(values, refresh)),
        folded("Runs", runFields(values, { once })),
        folded(
          "Payload",
          editor(values, "payload", "Payload", { hint: "JSON, for every run.", blank: "Empty: null.", redraw }),
        ),
      ];
    },
    act: () => post("schedules/create", created(values)),
  });
  if (!done) return;
  toast(`${values.name.trim()} is created.`);
  go("schedules/view", { name: values.name.trim() });
}

function created(values) {
  const { how, at, payload } = values;
  const [name, consumer, topic] = ["name", "consumer", "topic"].map((each) => values[each].trim());
  if (!name) throw new Error("Enter a name.");
  if (!consumer && (how === ONCE || !topic)) throw new Error(how === ONCE ? "Enter its consumer." : "Enter its consumer or topic.");
  const content = payload.trim() && { payload_text: checked(payload) };
  if (how === ONCE) {
    if (!at) throw new Error("Enter the time.");
    return { name, at: sent("at", at), consumer, ...filled(values, RUNS, "only_if"), ...content };
  }
  if (!values.rhythm.trim()) throw new Error("Enter a rhythm.");
  return {
    name,
    ...(consumer && { consumer }),
    ...(topic && { topic }),
    ...timing(values),
    ...filled(values, { ...POLICIES, ...RUNS }),
    ...content,
  };
}

/** The fields of a new schedule that differ from their defaults. */
function filled(values, defaults, except) {
  const set = Object.keys(defaults).filter((name) => name !== except && values[name].trim() !== defaults[name]);
  return Object.fromEntries(set.map((name) => [name, typed(name, values[name].trim(), defaults[name])]));
}

/** Edit a schedule; edits override configuration and code. */
export async function editing(row) {
  const before = written(row);
  const values = { ...before };
  const preview = new Preview(() => ({ name: row.name, ...changes(row, before, values, BLANK), count: 10 }));
  const days = Object.fromEntries(
    ["workdays", "holidays"]
      .filter((name) => byCode(row[name]))
      .map((name) => [name, `decided by ${byCode(row[name])}; text replaces it`]),
  );
  const done = await ask({
    title: `Edit ${row.name}`,
    label: "Save",
    wide: true,
    values,
    draw(_, redraw) {
      const refresh = () => preview.load(redraw);
      if (!preview.requests) refresh();
      return [
        dueFields(values, refresh, { days }),
        preview.view(),
        folded("Policies", policyFields(values), ruleFields(values, refresh)),
        folded("Runs", runFields(values, { condition: byCode([row.only_if ?? ""]) })),
        row.edited.length > 0 &&
          h(
            "p",
            { class: "faint" },
            `Edited: ${row.edited.join(", ")}. `,
            button(row.origin === "code" ? "Reset to code" : "Drop the edits", () => reset(row), { kind: "small" }),
          ),
      ];
    },
    act() {
      const changed = changes(row, before, values, values);
      if (!Object.keys(changed).length) throw new Error("Nothing changed.");
      return post("schedules/alter", { name: row.name, ...changed });
    },
  });
  if (done) toast(`${row.name} follows its new definition on every node.`);
}

/** The fields that the user has changed, of those in `among`: `reset` has the edits to drop. */
function changes(row, before, values, among) {
  const found = {};
  for (const name of Object.keys(among)) {
    const value = values[name].trim();
    if (value === before[name]) continue;
    if (value || POLICIES[name]) found[name] = typed(name, value, POLICIES[name]);
    else if (name in NOTHING) found[name] = NOTHING[name];
    else if (row.edited.includes(name)) found.reset = [...(found.reset ?? []), name];
    else throw new Error(`Its ${origin(row, name)} sets ${name}: enter another value.`);
  }
  return found;
}

function origin(row, name) {
  if (row.configured.includes(name)) return "configuration";
  return row.origin === "code" ? "code" : "definition";
}

function typed(name, value, standard) {
  if (name === "catch_up") return Number(value || standard);
  if (name === "headers" || (name === "retry" && value.startsWith("{"))) return JSON.parse(checked(value, name));
  return sent(name, value || standard);
}

/** A schedule's fields as text. */
function written(row) {
  return {
    rhythm: row.rhythm,
    timezone: row.timezone,
    workdays: days(row.workdays),
    holidays: days(row.holidays),
    start: local(row.start),
    end: local(row.end),
    day_match: row.day_match,
    on_gap: row.on_gap,
    misfire: row.misfire,
    misfire_after: `${row.misfire_after}s`,
    catch_up: String(row.catch_up),
    overlap: row.overlap,
    jitter: `${row.jitter}s`,
    priority: PRIORITIES[row.priority],
    only_if: byCode([row.only_if ?? ""]) ? "" : (row.only_if ?? ""),
    retry: retryOf(row),
    timeout: row.untimed ? "none" : row.timeout === null ? "" : `${row.timeout}s`,
    dead: row.dead ?? "",
    then: row.then ?? "",
    failed: row.failed ?? "",
    key: row.key ?? "",
    correlation_id: row.correlation_id ?? "",
    headers: headersOf(row),
  };
}

/** Its retry policy as text: a name, or data. */
export function retryOf({ retry }) {
  return typeof retry === "string" ? retry : retry === null ? "" : JSON.stringify(retry);
}

/** Its headers as text. */
export function headersOf({ headers }) {
  return Object.keys(headers).length ? JSON.stringify(headers) : "";
}

/** Stored days as people write them. */
export function daysOf(stored) {
  return stored.map((each) => each.replace(/^(country|code):/, "")).join(", ");
}

/** The same to edit: days that a function decides have no text. */
function days(stored) {
  return byCode(stored) ? "" : daysOf(stored);
}

function byCode(stored) {
  return stored
    .filter((each) => each.startsWith("code:"))
    .map((each) => each.slice("code:".length))
    .join(", ");
}

function policyFields(values) {
  return [
    h(
      "div",
      { class: "fields" },
      select(values, "misfire", "Missed runs are made up by", Object.keys(MISFIRE), null, MISFIRE),
      select(values, "overlap", "While a run is unfinished", Object.keys(OVERLAP), null, OVERLAP),
    ),
    h(
      "div",
      { class: "fields" },
      field(values, "jitter", "Start later by up to", { placeholder: "0s" }),
      select(values, "priority", "Priority", PRIORITIES),
      field(values, "misfire_after", "Missed if later than", { placeholder: "as the app decides" }),
      field(values, "catch_up", "Make up for at most", { inputmode: "numeric" }),
    ),
  ];
}

function runFields(values, { once = false, condition = "" }) {
  const groups = { list: "targets", placeholder: "nothing" };
  return [
    h(
      "div",
      { class: "fields" },
      field(values, "retry", "Retry", { placeholder: "5s, 1m, 10m", hint: "waits, or a preset" }),
      field(values, "timeout", "Timeout", { placeholder: "90s", hint: "of one attempt; “none”: no limit" }),
    ),
    h(
      "div",
      { class: "fields" },
      !once &&
        select(values, "only_if", condition ? `Fire (or as ${condition} decides)` : "Fire", Object.keys(ONLY_IF), null, ONLY_IF),
      select(values, "dead", "Keep of its dead letters", Object.keys(DEAD), null, DEAD),
    ),
    h(
      "div",
      { class: "fields" },
      field(values, "then", "Then run", groups),
      field(values, "failed", "If it failed, run", groups),
    ),
    h(
      "div",
      { class: "fields" },
      field(values, "key", "Key"),
      field(values, "correlation_id", "Correlation id"),
      field(values, "headers", "Headers", { class: "mono", placeholder: '{"tenant": "acme"}' }),
    ),
  ];
}

function folded(title, ...fields) {
  return h("details", { key: title }, h("summary", null, title), h("div", { class: "folded" }, fields));
}

async function reset(row) {
  const done = await attempt(() => post("schedules/alter", { name: row.name, reset: row.edited }).then(() => true));
  if (!done) return;
  document.querySelector("dialog")?.dispatchEvent(new Event("cancel", { cancelable: true }));
  toast(`${row.name} has no edits any more.`);
}

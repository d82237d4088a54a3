/** When a schedule is due: the fields for it, and a preview in words, with its next times and the effects of daylight saving. */

import { get } from "../api.js";
import { h } from "../view.js";
import { wall } from "../format.js";
import { field, select } from "../parts/dialogs.js";
import { when } from "../parts/pieces.js";

/** The fields of when it is due, empty. */
export const BLANK = {
  rhythm: "",
  timezone: "UTC",
  workdays: "",
  holidays: "",
  start: "",
  end: "",
  day_match: "and",
  on_gap: "fire",
};
/** A value that sets nothing: it is the default. */
const DEFAULTS = new Set(["day_match=and", "on_gap=fire"]);
const ZONES = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];

/** Instants in local time of their zone, each with the effect of daylight saving. */
export function instants(next) {
  const rows = next.map((each) =>
    h(
      "li",
      { key: each.at },
      h(
        "div",
        { class: "grow" },
        wall(each.local),
        h("span", { class: "faint" }, ` ${each.offset}`),
        each.note && h("div", { class: "wrong" }, each.note),
      ),
      when(each.at),
    ),
  );
  return h("ol", { class: "list" }, rows);
}

/** The request of these fields; those that are empty or have their default are omitted. */
export function timing(values) {
  const set = Object.keys(BLANK).filter((name) => values[name] && !DEFAULTS.has(`${name}=${values[name]}`));
  return Object.fromEntries(set.map((name) => [name, sent(name, values[name])]));
}

/** A field's value as the server reads it: times are typed in the browser's zone. */
export function sent(name, value) {
  return name === "start" || name === "end" || name === "at" ? new Date(value).toISOString() : value;
}

/** The preview of what is typed: `request()` returns the query; without one, `instead()` is shown. */
export class Preview {
  constructor(request, instead) {
    Object.assign(this, { request, instead, body: null, requests: 0 });
  }

  async load(redraw) {
    const mine = (this.requests += 1);
    const body = await this.ask().catch((refusal) => ({ error: refusal.message }));
    // Responses may arrive out of order: only the one for the current input counts.
    if (mine !== this.requests) return;
    this.body = body;
    redraw();
  }

  async ask() {
    const query = this.request();
    return query && get("preview", query);
  }

  view(kind = "ahead") {
    const { body } = this;
    if (!body) return this.instead?.() ?? h("p", { class: "faint" }, "…");
    if (body.error) return h("p", { class: "wrong", role: "alert" }, body.error);
    return h("div", { class: `card ${kind}` }, h("header", null, h("h2", null, body.description)), instants(body.next));
  }
}

/** The fields of when it is due; `refresh` is called whenever one changes. */
export function dueFields(values, refresh, { days = {} } = {}) {
  const typed = (name, label, options) => field(values, name, label, { redraw: refresh, ...options });
  return [
    h(
      "div",
      { class: "fields" },
      typed("rhythm", "Rhythm", { class: "mono", placeholder: "0 9 * * mon-fri", hint: "cron, or “every 90s”" }),
      typed("timezone", "Zone", { list: "zones", placeholder: "Europe/Berlin" }),
    ),
    h(
      "div",
      { class: "fields" },
      typed("workdays", "Only on", { placeholder: "any day", hint: days.workdays ?? "weekdays, dates: mon-fri" }),
      typed("holidays", "Not on", { placeholder: "no day", hint: days.holidays ?? "weekdays, dates, a country: DE-BY" }),
    ),
    h(
      "div",
      { class: "fields" },
      typed("start", "Not before", { type: "datetime-local", hint: "by your own clock" }),
      typed("end", "Not after", { type: "datetime-local" }),
    ),
    h(
      "datalist",
      { id: "zones" },
      ZONES.map((zone) => h("option", { key: zone, value: zone })),
    ),
  ];
}

/** The rules of an expression, rarely changed. */
export function ruleFields(values, refresh) {
  return h(
    "div",
    { class: "fields" },
    select(values, "day_match", "Day fields that match", ["and", "or"], refresh, { and: "both", or: "either" }),
    select(values, "on_gap", "At a skipped local time", ["fire", "skip"], refresh, {
      fire: "run after the gap",
      skip: "not that day",
    }),
  );
}

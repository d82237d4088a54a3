/** Measures over time: window selection, tiles and charts. */

import { h } from "../view.js";
import { rate, span } from "../format.js";
import "./chart.js";

const WINDOWS = { "15m": "15 min", "2h": "2 hours", "24h": "24 hours", "7d": "7 days" };
const QUANTILES = ["p50", "p95", "p99"];

/** Whether this is a known window. */
export function known(window) {
  return Object.hasOwn(WINDOWS, window ?? "") ? window : undefined;
}

/** The tabs of time windows; `pick(name)` selects one. */
export function windows(chosen, pick) {
  const buttons = Object.entries(WINDOWS).map(([name, label]) =>
    h("button", { type: "button", "aria-pressed": String(chosen === name), onclick: () => pick(name) }, label),
  );
  return h("div", { class: "tabs", role: "group", "aria-label": "Time window" }, buttons);
}

/** One figure, with a link to what it counts; `mood` is "warm" or "alarm". */
export function tile(label, figure, detail, to, mood = "") {
  return h(
    "a",
    { key: label, class: `card tile ${mood}`, href: to },
    h("span", { class: "label" }, label),
    h("span", { class: "figure" }, figure),
    h("span", { class: "detail" }, detail),
  );
}

/** Charts of throughput, waiting and running times; with `failures`, also of failures. */
export function charts({ measures, now }, { failures = false } = {}) {
  const { buckets, span: width } = measures;
  const at = buckets.map((bucket) => bucket.at);
  // The last span is incomplete: divided by its full width it would always look like a collapse.
  const seconds = (at) => Math.max(1, Math.min(width, (Date.parse(now) - Date.parse(at)) / 1000));
  const perSecond = (name) => buckets.map((bucket) => bucket[name] / seconds(bucket.at));
  const bars = (names) => ({
    at,
    span: width,
    bars: names.map((name) => ({ name, mark: `c-${name}`, values: perSecond(name) })),
    format: (value) => `${rate(value)}/s`,
  });
  const lines = (what) => ({
    at,
    span: width,
    lines: QUANTILES.map((name) => ({ name, mark: `c-${name}`, values: buckets.map((bucket) => bucket[what][name]) })),
    format: span,
  });
  const all = ["done", "failed", "dead"];
  const wrong = ["failed", "dead"];
  return h(
    "div",
    { class: `charts ${failures ? "four" : ""}` },
    chart("Throughput", all, { ...bars(all), label: "Attempts per second over time" }),
    failures && chart("Failures", wrong, { ...bars(wrong), label: "Failed attempts per second over time" }),
    chart("Due to start", QUANTILES, { ...lines("wait"), label: "Time from due to start" }),
    chart("Run time", QUANTILES, { ...lines("run"), label: "Run time of handlers" }),
  );
}

function chart(title, names, data) {
  const legend = names.map((name) => h("span", { class: `c-${name}` }, h("b", null, name)));
  return h(
    "section",
    { class: "card", key: title },
    h("header", null, h("h2", null, title), h("div", { class: "aside" }, h("div", { class: "legend" }, legend))),
    h("div", { class: "body" }, h("ms-chart", { ".data": data })),
  );
}

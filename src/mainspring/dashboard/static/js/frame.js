/** The frame of every screen: the bar, the rail, and a container for the screen. */

import { home, post } from "./api.js";
import { h } from "./view.js";
import { capped } from "./format.js";
import { help } from "./keys.js";
import "./parts/databases.js";
import { icon } from "./parts/icons.js";
import { button, state } from "./parts/pieces.js";
import { href } from "./router.js";

const RAIL = [
  ["", "overview", "Overview"],
  ["messages", "messages", "Messages", (totals) => totals.ready + totals.running],
  ["consumers", "consumers", "Consumers"],
  ["schedules", "schedules", "Schedules"],
  ["dead", "dead", "Dead letters", (totals) => totals.dead],
  null,
  ["brokers", "brokers", "Brokers"],
  ["inbox", "inbox", "Inbox"],
  ["joins", "joins", "Joins"],
  ["leases", "leases", "Leases"],
  ["fanouts", "fanouts", "Fan-out"],
  ["workers", "workers", "Workers"],
  ["audit", "audit", "Audit"],
];
const STATES = { live: "live", paused: "paused", lost: "connection lost" };

/** The whole page, with an empty `main` for the screen. */
export function frame(context, path, leave) {
  const railed = !context.ofFleet && !context.me.missing;
  return h(
    "div",
    { class: `frame ${railed ? "" : "whole"}` },
    bar(context, leave),
    railed && rail(context, path),
    h("main", { class: "main", id: "main", tabindex: "-1" }),
  );
}

function bar(context, leave) {
  const { me, overview } = context;
  return h(
    "header",
    { class: "bar" },
    h("a", { class: "skip", href: "#main" }, "Skip to the content"),
    h(
      "a",
      { class: "brand", href: `${home}/`, title: me.fleet && "All databases" },
      icon("spring"),
      h("span", { class: "wide" }, "Mainspring"),
      h("span", { class: me.database === null ? "of" : "of wide" }, me.app),
    ),
    me.database !== null && h("ms-databases", { ".current": me.database }),
    // The sums of a fleet have the checks of the fleet itself, without a part for health.
    overview && health(overview.health ?? overview, me.database === null ? "" : "wide"),
    h("span", { class: "space" }),
    !me.missing && h(
      "span",
      { class: `live ${context.state === "live" ? "on" : context.state}`, role: "status", title: context.refused?.message },
      STATES[context.state],
    ),
    me.role === "viewer" &&
      h("span", { class: "state wide", title: "Read-only: log in as an operator to make changes" }, "read-only"),
    button(icon("keys"), help, { kind: "quiet wide", title: "Keys (?)" }),
    button(icon(dark() ? "sun" : "moon"), turn, { kind: "quiet", title: dark() ? "Light" : "Dark" }),
    me.login && button("Log out", () => leave(() => post("logout")), { kind: "quiet", title: me.user }),
  );
}

function health({ status, checks }, kind) {
  const ills = checks
    .filter((check) => check.status !== "healthy")
    .map((check) => `${check.name}: ${check.summary}`)
    .join("\n");
  return h("a", { class: kind, href: href(""), title: ills }, state(status));
}

function rail(context, path) {
  const totals = context.overview?.totals;
  const first = path.split("/")[0];
  return h(
    "nav",
    { class: "rail", "aria-label": "Screens" },
    context.me.fleet && [h("a", { key: "fleet", href: `${home}/` }, icon("back"), "All databases"), h("hr", null)],
    RAIL.map((entry) => {
      if (!entry) return h("hr", null);
      const [to, picture, label, counted] = entry;
      const number = totals && counted ? counted(totals) : 0;
      const alarm = to === "dead" && number > 0;
      const badge =
        number > 0 && h("span", { class: `count ${alarm ? "alarm" : ""}` }, capped(number, context.overview.cap));
      return h(
        "a",
        { href: href(to), class: alarm ? "alarmed" : "", "aria-current": first === to && "page" },
        icon(picture),
        label,
        badge,
      );
    }),
  );
}

function dark() {
  return document.documentElement.dataset.theme === "dark";
}

function turn() {
  const theme = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("mainspring-theme", theme);
  } catch {
    // Storage may be disabled: the choice lasts until the page is closed.
  }
}

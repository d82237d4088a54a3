/** A page to try an expression, with its zone and its days, before any schedule has it. */

import { h, render } from "../view.js";
import { button, card, empty, head } from "../parts/pieces.js";
import { href, rewrite } from "../router.js";
import { creating } from "./definition.js";
import { BLANK, Preview, dueFields, ruleFields, timing } from "./rhythm.js";

const COUNT = 20;
const EXAMPLES = [
  ["0 9 * * mon-fri", "at nine on weekdays"],
  ["*/15 8-18 * * *", "every quarter of an hour by day"],
  ["0 0 L * *", "on the last day of a month"],
  ["0 10 * * mon#1", "on the first Monday of a month"],
  ["every 90s", "an interval"],
];

/** Shows the fields and the next times; what is typed is in the URL. */
export function trial(place, { query, context, go }) {
  const known = Object.entries(query).filter(([name]) => name in BLANK);
  const values = { ...BLANK, ...Object.fromEntries(known) };
  const preview = new Preview(() => values.rhythm.trim() && { ...timing(values), count: COUNT }, examples);

  function refresh() {
    const typed = Object.entries(values).filter(([name, value]) => value !== BLANK[name]);
    rewrite("schedules/try", Object.fromEntries(typed));
    preview.load(draw);
  }

  function draw() {
    const fields = [dueFields(values, refresh), ruleFields(values, refresh)];
    render(
      place,
      h("p", { class: "crumb" }, h("a", { href: href("schedules") }, "Schedules"), " / Try an expression"),
      head(
        "Try an expression",
        null,
        context.mayFreeze && button("New schedule", () => creating(context, go, values), { kind: "main-act" }),
      ),
      h(
        "div",
        { class: "columns even" },
        card("Expression", null, h("div", { class: "body stack" }, fields)),
        preview.view(""),
      ),
    );
  }

  draw();
  preview.load(draw);
  return {};
}

function examples() {
  const links = EXAMPLES.map(([rhythm, words]) =>
    h(
      "li",
      { key: rhythm },
      h("a", { href: href("schedules/try", { rhythm }), class: "mono" }, rhythm),
      h("span", { class: "faint" }, words),
    ),
  );
  return h(
    "div",
    { class: "card" },
    empty("Nothing to preview yet.", "Enter an expression, or begin with one of these:"),
    h("ul", { class: "list" }, links),
  );
}

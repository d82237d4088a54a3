/** Editing a rhythm with a preview: in words, with its next times and the effects of daylight saving. */

import { get, post } from "../api.js";
import { h } from "../view.js";
import { wall } from "../format.js";
import { ask, field, select, toast } from "../parts/dialogs.js";
import { when } from "../parts/pieces.js";

const MISFIRE = ["latest", "skip", "all"];
const OVERLAP = ["skip", "queue", "allow", "cancel"];

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

/** Edit a schedule; edits override configuration and code. */
export async function editing(row) {
  const before = { rhythm: row.rhythm, timezone: row.timezone, misfire: row.misfire, overlap: row.overlap };
  const values = { ...before };
  const ahead = { body: null, requests: 0 };

  async function load(redraw) {
    const mine = (ahead.requests += 1);
    const query = {
      rhythm: values.rhythm,
      timezone: values.timezone,
      day_match: row.day_match,
      on_gap: row.on_gap,
      count: 10,
    };
    const body = await get("preview", query).catch((refusal) => ({ error: refusal.message }));
    // Responses may arrive out of order: only the one for the current input counts.
    if (mine === ahead.requests) {
      ahead.body = body;
      redraw();
    }
  }

  const done = await ask({
    title: `Edit ${row.name}`,
    label: "Save",
    wide: true,
    values,
    draw(_, redraw) {
      const refresh = () => load(redraw);
      if (!ahead.requests) refresh();
      return [
        h(
          "div",
          { class: "fields" },
          field(values, "rhythm", "Rhythm", { redraw: refresh, class: "mono", hint: "cron, or “every 90s”" }),
          field(values, "timezone", "Zone", { redraw: refresh }),
        ),
        h(
          "div",
          { class: "fields" },
          select(values, "misfire", "When missed", MISFIRE),
          select(values, "overlap", "While one runs", OVERLAP),
        ),
        preview(ahead.body),
        row.edited.length > 0 &&
          h(
            "p",
            { class: "faint" },
            `Edited: ${row.edited.join(", ")}. `,
            h("button", { type: "button", class: "button small", onclick: () => reset(row) }, "Reset to code"),
          ),
      ];
    },
    act() {
      const changed = Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== before[name]));
      if (!Object.keys(changed).length) throw new Error("Nothing changed.");
      return post("schedules/alter", { name: row.name, ...changed });
    },
  });
  if (done) toast(`${row.name} follows its new rhythm on every node.`);
}

async function reset(row) {
  await post("schedules/alter", { name: row.name, reset: row.edited });
  document.querySelector("dialog")?.dispatchEvent(new Event("cancel", { cancelable: true }));
  toast(`${row.name} is reset to its code.`);
}

function preview(body) {
  if (!body) return h("p", { class: "faint" }, "…");
  if (body.error) return h("p", { class: "wrong", role: "alert" }, body.error);
  return h("div", { class: "card ahead" }, h("header", null, h("h2", null, body.description)), instants(body.next));
}

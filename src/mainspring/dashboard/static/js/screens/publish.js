/** Dialogs to publish a message, copy one, or replace a dead letter's payload. */

import { post } from "../api.js";
import { h } from "../view.js";
import { ask, field, select, toast } from "../parts/dialogs.js";
import { messageLink } from "../parts/pieces.js";
import { checked, editor } from "../parts/json.js";

/** Publish a new message. */
export function compose(go) {
  const values = { topic: "", key: "", delay: "", payload: "{}" };
  return publish("Publish a message", values, () => ({ payload_text: checked(values.payload) }), { hint: "JSON." }, go);
}

/** Publish a copy of a message, changed or not. */
export function copy(found, go) {
  const { text } = found.payload;
  const values = { topic: found.topic, key: found.key ?? "", delay: "", payload: text ?? "" };
  const hint =
    text === null
      ? { blank: "It cannot be edited here, and is copied unchanged." }
      : { hint: "JSON. Unchanged, it is copied including its masked values." };
  // An unchanged payload is not sent: the server has it in full, and this page may have it masked.
  const changed = () => (values.payload === (text ?? "") ? {} : { payload_text: checked(values.payload) });
  return publish("Copy and edit", values, () => ({ copy_of: found.id, ...changed() }), hint, go);
}

/** Revive a dead letter with another payload. */
export async function edit(found) {
  const groups = found.deliveries.filter((each) => each.state === "dead").map((each) => each.group);
  const values = { group: groups[0], payload: found.payload.text ?? "" };
  const done = await ask({
    title: "Edit and revive",
    label: "Revive",
    wide: true,
    values,
    draw: (_, redraw) => [
      groups.length > 1 && select(values, "group", "Consumer", groups, redraw),
      editor(values, "payload", "Payload", {
        hint: "JSON. It replaces the dead letter's payload for its consumer.",
        redraw,
      }),
    ],
    act: () => post(`messages/${found.id}/replace`, { group: values.group, payload_text: checked(values.payload) }),
  });
  if (done) toast(done.id ? ["Revived with the new payload as ", messageLink(done.id), "."] : "It is no longer a dead letter.");
}

async function publish(title, values, body, { hint = "JSON.", blank }, go) {
  const receipt = await ask({
    title,
    label: "Publish",
    wide: true,
    values,
    draw: (_, redraw) => [
      h(
        "div",
        { class: "fields" },
        field(values, "topic", "Topic"),
        field(values, "key", "Key"),
        field(values, "delay", "Delay", { placeholder: "15m" }),
      ),
      editor(values, "payload", "Payload", { hint: `${hint} It goes to every consumer of the topic.`, blank, redraw }),
    ],
    act: () => post("messages", { topic: values.topic, ...body(), ...given(values, "key"), ...given(values, "delay") }),
  });
  if (!receipt) return;
  toast("Published.");
  go(`messages/${receipt.id}`);
}

function given(values, name) {
  return values[name] ? { [name]: values[name] } : {};
}

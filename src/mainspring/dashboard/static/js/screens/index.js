/** All screens by path. */

import { h, render } from "../view.js";
import { empty } from "../parts/pieces.js";
import { href } from "../router.js";
import { audit } from "./audit.js";
import { brokers } from "./brokers.js";
import { consumer } from "./consumer.js";
import { consumers } from "./consumers.js";
import { absent, databases } from "./databases.js";
import { dead } from "./dead.js";
import { fanouts } from "./fanouts.js";
import { inbox } from "./inbox.js";
import { join, joins } from "./joins.js";
import { leases } from "./leases.js";
import { message } from "./message.js";
import { messages } from "./messages.js";
import { overview } from "./overview.js";
import { schedule } from "./schedule.js";
import { schedules } from "./schedules.js";
import { trial } from "./trial.js";
import { workers } from "./workers.js";

const SCREENS = {
  "": ["Overview", overview],
  messages: ["Messages", messages],
  consumers: ["Consumers", consumers],
  "consumers/view": ["Consumer", consumer],
  schedules: ["Schedules", schedules],
  "schedules/view": ["Schedule", schedule],
  "schedules/try": ["Try an expression", trial],
  dead: ["Dead letters", dead],
  brokers: ["Brokers", brokers],
  inbox: ["Inbox", inbox],
  joins: ["Joins", joins],
  leases: ["Leases", leases],
  fanouts: ["Fan-out", fanouts],
  workers: ["Workers", workers],
  audit: ["Audit", audit],
};

const OF_FLEET = { "": ["Databases", databases] };

/** The screen of a path: its title, its function, and the parameters in the path. */
export function screens(path, context) {
  if (context.me.missing) return { title: "No such database", show: absent, given: {} };
  const all = context.ofFleet ? OF_FLEET : SCREENS;
  const found = Object.hasOwn(all, path) && all[path];
  if (found) return { title: found[0], show: found[1], given: {} };
  const [first, id, ...rest] = context.ofFleet ? [] : path.split("/");
  if (first === "messages" && id && !rest.length) return { title: "Message", show: message, given: { id } };
  if (first === "joins" && id && !rest.length) return { title: "Join", show: join, given: { id } };
  return { title: "Not found", show: nowhere, given: {} };
}

function nowhere(place) {
  render(place, empty("No such page.", h("a", { href: href("") }, "To the overview")));
}

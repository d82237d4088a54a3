/** Keyboard shortcuts: `g` and a letter open a screen, others belong to the current screen. */

import { home } from "./api.js";
import { h } from "./view.js";
import { ask } from "./parts/dialogs.js";
import { go } from "./router.js";

const SCREENS = {
  o: "",
  m: "messages",
  c: "consumers",
  s: "schedules",
  d: "dead",
  b: "brokers",
  i: "inbox",
  j: "joins",
  l: "leases",
  f: "fanouts",
  w: "workers",
  a: "audit",
};
const HELP = [
  ["g o", "Overview"],
  ["g m", "Messages"],
  ["g c", "Consumers"],
  ["g s", "Schedules"],
  ["g d", "Dead letters"],
  ["g b", "Brokers"],
  ["g i", "Inbox"],
  ["g j", "Joins"],
  ["g l", "Leases"],
  ["g f", "Fan-out"],
  ["g w", "Workers"],
  ["g a", "Audit"],
  ["/", "Search"],
  ["j k", "Next and previous row"],
  ["x", "Select the row"],
  ["Enter", "Open the row"],
  ["?", "This help"],
];

/** On the pages of a database of a fleet. */
const IN_FLEET = [
  ["g t", "All databases", () => location.assign(`${home}/`)],
  ["g n", "Another database", () => choice().show()],
];

let here = {};
let pending = false;

/** Set the shortcuts of the current screen: an object from a key to its function. */
export function keys(mapping) {
  here = mapping;
}

/** Show all shortcuts. */
export function help() {
  const known = railed() ? HELP : HELP.filter(([key]) => !key.startsWith("g "));
  const rows = [...(choice() ? IN_FLEET : []), ...known].map(([key, what]) => [
    h(
      "dt",
      null,
      key.split(" ").map((each) => [h("kbd", null, each), " "]),
    ),
    h("dd", null, what),
  ]);
  return ask({ title: "Keys", label: "Close", draw: () => h("dl", { class: "facts" }, rows), act: () => true });
}

/** The choice of a database, if there is one. */
function choice() {
  return document.querySelector("ms-databases");
}

/** Whether there are screens to go to. */
function railed() {
  return document.querySelector(".rail") !== null;
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, dialog, [contenteditable]");
  if (typing || event.metaKey || event.ctrlKey || event.altKey) return;
  if (pending) {
    pending = false;
    const found = choice() && IN_FLEET.find(([key]) => key === `g ${event.key}`);
    if (found) {
      event.preventDefault();
      found[2]();
    } else if (event.key in SCREENS && railed()) go(SCREENS[event.key]);
    return;
  }
  if (event.key === "g") {
    pending = true;
    setTimeout(() => (pending = false), 1200);
  } else if (event.key === "?") {
    help();
  } else if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (event.key in here) {
    event.preventDefault();
    here[event.key]();
  }
});

/**
 * Hearing of what changes. A page has one line to the server for all that it watches: a browser grants an origin only
 * six, and a window that holds two of them is soon one window too many.
 */

import { Refusal, address, get, root } from "./api.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;

const watched = new Set();
let source = null;
let timer = null;
let pause = FIRST_PAUSE;

/**
 * Hear of one thing now and whenever it changes, until the returned function is called.
 *
 * `on.data` is given every new body, `on.state` "live", "paused" (nobody looks at the tab) or "lost", `on.refused`
 * what the server has against it. A lost line is tried again, more and more patiently.
 */
export function watch(path, query, on) {
  const one = { path, query, on, of: address(path, query).slice(`${root}/api/`.length) };
  watched.add(one);
  soon(0);
  return () => {
    watched.delete(one);
    soon(0);
  };
}

/** Open the line anew: whoever changes screens leaves one thing and asks for another in the same moment. */
function soon(delay) {
  clearTimeout(timer);
  timer = setTimeout(open, delay);
}

function open() {
  close();
  const all = [...watched];
  if (!all.length) return;
  if (document.hidden) {
    tell(all, "paused");
    return;
  }
  const asked = all.map((one) => `of=${encodeURIComponent(one.of)}`).join("&");
  source = new EventSource(`${root}/api/watch?${asked}`);
  source.addEventListener("body", (event) => {
    const { of, body } = JSON.parse(event.data);
    pause = FIRST_PAUSE;
    tell(all, "live");
    if (watched.has(all[of])) all[of].on.data(body);
  });
  source.addEventListener("problem", (event) => {
    const { of, error } = JSON.parse(event.data);
    if (watched.has(all[of])) all[of].on.refused?.(new Refusal(error.status, error.code, error.message));
  });
  source.onerror = () => {
    close();
    tell(all, "lost");
    explain(all[0]);
  };
}

/** An EventSource does not say why it was refused; an ordinary question does. */
async function explain(one) {
  try {
    await get(one.path, one.query);
  } catch (refusal) {
    one.on.refused?.(refusal);
    if (refusal.status === 401) return;
  }
  if (!source && !document.hidden) soon(pause);
  pause = Math.min(pause * 2, LONGEST_PAUSE);
}

function close() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

function tell(all, state) {
  for (const one of all) one.on.state?.(state);
}

document.addEventListener("visibilitychange", () => soon(0));

/**
  * Watching for changes. A page uses one stream for all that it watches: a browser allows six connections per origin,
  * and two per window would soon use them up.
 */

import { Refusal, address, get, root } from "./api.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;

const watched = new Set();
let source = null;
let timer = null;
let pause = FIRST_PAUSE;

/**
  * Watch one resource until the returned function is called.
 *
  * `on.data` gets every new body, `on.state` "live", "paused" (the tab is hidden) or "lost", `on.refused` the error of
  * the server. A lost connection is retried with increasing delays.
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

/** Reopen the stream, delayed: a change of screens stops watching one resource and starts another at once. */
function soon(delay) {
  clearTimeout(timer);
  timer = setTimeout(open, delay);
}

function open() {
  close();
  const all = [...watched];
  if (!all.length) return;
  if (document.hidden) {
    notify(all, "paused");
    return;
  }
  const resources = all.map((one) => `of=${encodeURIComponent(one.of)}`).join("&");
  source = new EventSource(`${root}/api/watch?${resources}`);
  source.addEventListener("body", (event) => {
    const { of, body } = JSON.parse(event.data);
    pause = FIRST_PAUSE;
    notify(all, "live");
    if (watched.has(all[of])) all[of].on.data(body);
  });
  source.addEventListener("problem", (event) => {
    const { of, error } = JSON.parse(event.data);
    if (watched.has(all[of])) all[of].on.refused?.(new Refusal(error.status, error.code, error.message));
  });
  source.onerror = () => {
    close();
    notify(all, "lost");
    explain(all[0]);
  };
}

/** An EventSource does not report why it was rejected; a normal request does. */
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

function notify(all, state) {
  for (const one of all) one.on.state?.(state);
}

document.addEventListener("visibilitychange", () => soon(0));

/** Which screen is shown: its name and its filters live in the address, so that every view can be sent to somebody. */

import { root } from "./api.js";

/** The address of a screen. What is empty is left out. */
export function href(path, query) {
  const pairs = Object.entries(query ?? {}).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  const asked = new URLSearchParams(pairs).toString();
  return `${root}/${path}${asked ? `?${asked}` : ""}`;
}

/** Where we are: `path` beneath the root, `query` as an object. */
export function here() {
  const path = location.pathname.slice(root.length).replace(/^\/+|\/+$/g, "");
  return { path, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** Go to a screen; `replace` leaves no step to go back to. */
export function go(path, query, { replace = false } = {}) {
  const to = href(path, query);
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  changed();
}

/** Let the address say what the screen shows by now, without showing it anew. */
export function rewrite(path, query) {
  history.replaceState(null, "", href(path, query));
}

/** Call this whenever the address has changed, and turn clicks on our own links into such changes. */
export function follow(listener) {
  changed = listener;
  let at = location.pathname + location.search;
  addEventListener("popstate", () => {
    // A step within the page, to its content, is none to another screen.
    if (at !== location.pathname + location.search || !location.hash) listener();
    at = location.pathname + location.search;
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !within(link.pathname) || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    if (link.href !== location.href) history.pushState(null, "", link.href);
    listener();
  });
}

let changed = () => {};

function within(pathname) {
  const ours = pathname === root || pathname.startsWith(`${root}/`);
  return ours && !/^\/(api|static|metrics|health)(\/|$)/.test(pathname.slice(root.length));
}

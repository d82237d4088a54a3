/** Routing: the screen's name and its filters are in the URL, so that every view can be shared. */

import { home, root } from "./api.js";

/** The URL of a screen. Empty values are omitted. */
export function href(path, query, within = root) {
  const pairs = Object.entries(query ?? {}).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  const search = new URLSearchParams(pairs).toString();
  return `${within}/${path}${search ? `?${search}` : ""}`;
}

/** The URL of a screen of a database of the fleet; the name is encoded as the server does. */
export function databaseHref(name, path = "", query) {
  const encoded = encodeURIComponent(name).replace(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`);
  return href(path, query, `${home}/db/${encoded}`);
}

/** The current location: `path` below the root, `query` as an object. */
export function here() {
  const path = location.pathname.slice(root.length).replace(/^\/+|\/+$/g, "");
  return { path, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** Open a screen; `replace` adds no entry to the browser's history. */
export function go(path, query, { replace = false } = {}) {
  const to = href(path, query);
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  changed();
}

/** Update the URL to what the screen shows, without drawing it again. */
export function rewrite(path, query) {
  history.replaceState(null, "", href(path, query));
}

/** Call this function whenever the URL changes, and handle clicks on internal links. */
export function follow(listener) {
  changed = listener;
  let at = location.pathname + location.search;
  addEventListener("popstate", () => {
    // A link within the page, to its content, does not change the screen.
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
  return ours && !/^\/(api|static|metrics|health|db)(\/|$)/.test(pathname.slice(root.length));
}

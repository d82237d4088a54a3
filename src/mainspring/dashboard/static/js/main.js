/** The entry point: reads the session, and draws the frame and the screen. */

import { session } from "./api.js";
import { watch } from "./watch.js";
import { h, render } from "./view.js";
import { follow, go, here, rewrite } from "./router.js";
import { frame } from "./frame.js";
import { keys } from "./keys.js";
import { known } from "./parts/measures.js";
import { serverTime } from "./parts/when.js";
import { toast } from "./parts/dialogs.js";
import { trouble } from "./parts/pieces.js";
import { login } from "./screens/login.js";
import { screens } from "./screens/index.js";

const page = document.getElementById("app");

/** The context of every screen: the session, and the overview of the app or the fleet that the frame watches. */
const context = {
  me: null,
  overview: null,
  state: "paused",
  refused: null,
  window: "15m",
  listeners: new Set(),
  /** Whether the user may act. */
  get operates() {
    return this.me.role === "operator";
  },
  /** Whether this is the overview of a fleet, and not the screens of an app. */
  get ofFleet() {
    return this.me.fleet && this.me.database === null;
  },
  /** Whether the user may create and freeze schedules, which is done for one application. */
  get mayFreeze() {
    return this.operates && !this.me.database_only;
  },
};

let railWidth = 0;
let shown = null;
let unwatch = null;

async function begin() {
  try {
    context.me = await session();
  } catch (refusal) {
    render(page, h("div", { class: "door" }, trouble(refusal)));
    setTimeout(begin, 3000);
    return;
  }
  serverTime(context.me.now);
  if (context.me.role === null) {
    leave();
    render(page, login(context.me, begin));
    return;
  }
  const { path, query } = here();
  if (!path) context.window = known(query.window) ?? context.window;
  if (path === "login") history.replaceState(null, "", document.location.pathname.replace(/login\/?$/, ""));
  watchOverview();
  route();
}

/** Watch the overview over this time window. */
function watchOverview() {
  unwatch?.();
  if (context.me.missing) return;
  unwatch = watch(
    context.ofFleet ? "fleet" : "overview",
    context.ofFleet ? null : { window: context.window },
    {
      data(overview) {
        serverTime(overview.now);
        context.overview = overview;
        context.refused = null;
        drawn();
      },
      state(state) {
        context.state = state;
        drawn();
      },
      refused(refusal) {
        context.refused = refusal;
        if (refusal.status === 401) begin();
        drawn();
      },
    },
  );
}

/** Change the time window. */
context.over = (window) => {
  context.window = window;
  rewrite("", { window });
  watchOverview();
};

/** Notify the frame and listeners of new data. */
function drawn() {
  if (!shown) return;
  draw();
  for (const listener of context.listeners) listener();
}

function draw() {
  render(page, frame(context, here().path, logOut));
  // On a phone the rail is wider than the page, and widens when the counts arrive.
  const rail = document.querySelector(".rail");
  if (!rail || rail.scrollWidth === railWidth) return;
  railWidth = rail.scrollWidth;
  rail.querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
}

function route() {
  const { path, query } = here();
  const found = screens(path, context);
  shown?.leave?.();
  context.listeners.clear();
  keys({});
  shown = {};
  railWidth = 0;
  draw();
  const main = document.getElementById("main");
  const name = context.me.database ?? context.me.app;
  document.title = found.title ? `${found.title} · ${name}` : `${name} · Mainspring`;
  if (shown.path !== path) main.scrollTo?.(0, 0);
  // Every screen gets its own container: late responses for the previous screen draw into a detached one.
  const place = document.createElement("div");
  main.replaceChildren(place);
  shown = found.show(place, { ...found.given, query, context, go }) ?? {};
}

function leave() {
  unwatch?.();
  unwatch = null;
  shown?.leave?.();
  shown = null;
}

/** Stop watching first: a stream of an ended session is rejected, and the browser reports that as an error. */
async function logOut(out) {
  leave();
  try {
    await out();
  } finally {
    await begin();
  }
}

addEventListener("unhandledrejection", (event) => toast(String(event.reason?.message ?? event.reason), { grave: true }));
follow(() => context.me?.role && route());
begin();

/** The entry point: reads the session, and draws the frame and the screen. */

import { session } from "./api.js";
import { watch } from "./watch.js";
import { h, render } from "./view.js";
import { follow, go, here, rewrite } from "./router.js";
import { frame } from "./frame.js";
import { keys } from "./keys.js";
import { known } from "./parts/measures.js";
import { serverTime } from "./parts/when.js";
import { tell } from "./parts/dialogs.js";
import { trouble } from "./parts/pieces.js";
import { login } from "./screens/login.js";
import { screens } from "./screens/index.js";

const page = document.getElementById("app");

/** The context of every screen: the session, and the overview that the frame watches. */
const house = { me: null, overview: null, state: "paused", refused: null, window: "15m", listeners: new Set() };

let shown = null;
let unwatch = null;

async function begin() {
  try {
    house.me = await session();
  } catch (refusal) {
    render(page, h("div", { class: "door" }, trouble(refusal)));
    setTimeout(begin, 3000);
    return;
  }
  serverTime(house.me.now);
  if (house.me.role === null) {
    leave();
    render(page, login(house.me, begin));
    return;
  }
  const { path, query } = here();
  if (!path) house.window = known(query.window) ?? house.window;
  if (path === "login") history.replaceState(null, "", document.location.pathname.replace(/login\/?$/, ""));
  look();
  route();
}

/** Watch the overview over this time window. */
function look() {
  unwatch?.();
  unwatch = watch(
    "overview",
    { window: house.window },
    {
      data(overview) {
        serverTime(overview.now);
        house.overview = overview;
        house.refused = null;
        drawn();
      },
      state(state) {
        house.state = state;
        drawn();
      },
      refused(refusal) {
        house.refused = refusal;
        if (refusal.status === 401) begin();
        drawn();
      },
    },
  );
}

/** Change the time window. */
house.over = (window) => {
  house.window = window;
  rewrite("", { window });
  look();
};

/** Notify the frame and listeners of new data. */
function drawn() {
  if (!shown) return;
  draw();
  for (const listener of house.listeners) listener();
}

function draw() {
  render(page, frame(house, here().path, leaveHouse));
}

function route() {
  const { path, query } = here();
  const found = screens(path);
  shown?.leave?.();
  house.listeners.clear();
  keys({});
  shown = {};
  draw();
  // On a phone the rail is wider than the page.
  document.querySelector('.rail [aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
  const main = document.getElementById("main");
  document.title = found.title ? `${found.title} · ${house.me.app}` : `${house.me.app} · Mainspring`;
  if (shown.path !== path) main.scrollTo?.(0, 0);
  // Every screen gets its own container: late responses for the previous screen draw into a detached one.
  const place = document.createElement("div");
  main.replaceChildren(place);
  shown = found.show(place, { ...found.given, query, house, go }) ?? {};
}

function leave() {
  unwatch?.();
  unwatch = null;
  shown?.leave?.();
  shown = null;
}

async function leaveHouse(out) {
  await out();
  await begin();
}

addEventListener("unhandledrejection", (event) => tell(String(event.reason?.message ?? event.reason), { grave: true }));
follow(() => house.me?.role && route());
begin();

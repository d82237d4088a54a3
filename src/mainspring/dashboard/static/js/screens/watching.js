/** Screens that show one thing and follow it. */

import { watch } from "../watch.js";
import { h, render } from "../view.js";
import { trouble } from "../parts/pieces.js";

/** Draw what is watched, whenever it or the screen's own state changes; `leave` ends it. */
export function watching(place, path, query, draw) {
  let body = null;
  let refused = null;

  function redraw() {
    if (body === null) render(place, refused ? trouble(refused) : h("p", { class: "faint" }, "Loading …"));
    else render(place, refused && trouble(refused), draw(body));
  }

  const leave = watch(path, query, {
    data(fresh) {
      body = fresh;
      refused = null;
      redraw();
    },
    refused(refusal) {
      refused = refusal;
      redraw();
    },
  });
  redraw();
  return { leave, redraw };
}

/** Screens that watch one resource. */

import { watch } from "../watch.js";
import { h, render } from "../view.js";
import { trouble } from "../parts/pieces.js";

/**
  * Draw the watched resource whenever it or the screen's own state changes; `leave` ends it, `ask` changes the request.
  *
  * `instead()` is shown below an error if nothing was ever received.
 */
export function watchScreen(place, path, query, draw, instead) {
  let body = null;
  let refused = null;
  let unwatch = null;

  function redraw() {
    if (body !== null) render(place, refused && trouble(refused), draw(body));
    else render(place, refused ? [trouble(refused), instead?.()] : h("p", { class: "faint" }, "Loading …"));
  }

  function ask(request) {
    unwatch?.();
    unwatch = watch(path, request, {
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
  }

  ask(query);
  redraw();
  return { leave: () => unwatch(), redraw, ask };
}

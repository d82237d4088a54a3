/** Screens that watch one resource, and those that show it in pages. */

import { get } from "../api.js";
import { watch } from "../watch.js";
import { h, render } from "../view.js";
import { attempt } from "../parts/dialogs.js";
import { button, trouble } from "../parts/pieces.js";
import { RowFilter } from "../parts/rows.js";
import { Pages } from "../pages.js";

const LIMIT = 100;

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

/**
  * Draw rows in pages, which the server searches: the first page is watched, further ones are loaded.
  *
  * `key` and `behind` are those of `Pages`. `draw` gets the `rows`, whether this is `all` of them, the `filter`, the
  * button `more`, and `replace(row)` for one that has changed on a page that is not watched.
 */
export function pagedScreen(place, path, query, { key, behind }, draw) {
  let pages = new Pages(key, behind);
  const request = () => ({ find: filter.find, limit: LIMIT });
  const filter = new RowFilter(path, query, {
    redraw: () => screen.redraw(),
    search() {
      pages = new Pages(key, behind);
      screen.ask(request());
    },
  });

  async function load() {
    await pages.more((cursor) => attempt(() => get(path, { ...request(), cursor })));
    screen.redraw();
  }

  function replace(row) {
    pages.older = pages.older.map((each) => (key(each) === key(row) ? row : each));
    screen.redraw();
  }

  const screen = watchScreen(place, path, request(), (found) => {
    pages.fresh(found.rows, found.cursor);
    const more = button("More", load, { disabled: pages.loading });
    return draw({ rows: pages.all(), all: pages.cursor === null, filter, more, replace });
  });
  return screen;
}

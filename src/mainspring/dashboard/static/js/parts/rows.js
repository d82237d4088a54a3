/** Filtering and sorting of rows: the text and the order are in the URL, so that a view can be shared. */

import { h } from "../view.js";
import { rewrite } from "../router.js";

/**
  * `path` and `query` are those of the screen; `redraw` is called when the order changes, `search` when the text
  * changes, if the server searches; `more()` returns what else is in the URL.
  *
  * Sortable columns have `by(row)`. In the URL they are named in lower case, with `-` in front for descending
  * order.
 */
export class RowFilter {
  constructor(path, query, { redraw, search, more = () => ({}) }) {
    Object.assign(this, { path, redraw, search, more, find: query.find ?? "", sort: query.sort ?? "" });
  }

  /** The search box. */
  box(label) {
    const oninput = ({ target }) => {
      this.find = target.value;
      this.store();
      if (!this.search) {
        this.redraw();
        return;
      }
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.search(), 300);
    };
    return h("input", {
      key: "find",
      type: "search",
      class: "find",
      placeholder: label,
      "aria-label": label,
      "data-search": true,
      value: this.find,
      oninput,
    });
  }

  /** The rows that contain every word typed; `words(row)` is the text of a row. */
  found(rows, words) {
    const wanted = this.find.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.filter((row) => {
      const text = words(row).toLowerCase();
      return wanted.every((each) => text.includes(each));
    });
  }

  /** The rows in the chosen order, or as they came. Rows without a value are last. */
  sorted(rows, columns) {
    const column = columns.find((each) => each.by && named(each) === this.sort.replace(/^-/, ""));
    if (!column) return rows;
    const sign = this.sort.startsWith("-") ? -1 : 1;
    const value = (row) => column.by(row) ?? null;
    return [...rows].sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    });
  }

  /** The order of a column for `aria-sort`; undefined if it is not sortable. */
  order(column) {
    if (!column.by) return undefined;
    if (this.sort === named(column)) return "ascending";
    return this.sort === `-${named(column)}` ? "descending" : "none";
  }

  /** The head of a column: a button if it is sortable. */
  head(column) {
    if (!column.by) return column.head ?? column.name;
    const onclick = () => {
      const name = named(column);
      // Numbers are sorted in descending order first, names and future times in ascending order.
      const [first, second] = column.right && !column.rising ? [`-${name}`, name] : [name, `-${name}`];
      this.sort = this.sort === first ? second : first;
      this.store();
      this.redraw();
    };
    return h("button", { type: "button", class: "sorter", onclick }, column.name);
  }

  store() {
    rewrite(this.path, { find: this.find, sort: this.sort, ...this.more() });
  }
}

function named(column) {
  return column.name.toLowerCase().replaceAll(" ", "-");
}

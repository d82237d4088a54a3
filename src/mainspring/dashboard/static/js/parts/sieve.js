/** Finding and ordering rows: what is looked for and the order live in the address, so that a view can be sent on. */

import { h } from "../view.js";
import { rewrite } from "../router.js";

/**
 * `path` and `query` are those of the screen; `redraw` is called when another order is chosen, `search` when somebody
 * looks for something else, where that is the server's to find.
 *
 * Columns that can be ordered have `by(row)`. Their name in the address is their own in small letters, with `-` before
 * it where the greatest comes first.
 */
export class Sieve {
  constructor(path, query, { redraw, search }) {
    Object.assign(this, { path, redraw, search, find: query.find ?? "", sort: query.sort ?? "" });
  }

  /** The box to type into. */
  box(label) {
    const oninput = ({ target }) => {
      this.find = target.value;
      this.told();
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

  /** The rows in which everything that was typed occurs; `words(row)` is the text of one. */
  found(rows, words) {
    const wanted = this.find.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.filter((row) => {
      const text = words(row).toLowerCase();
      return wanted.every((each) => text.includes(each));
    });
  }

  /** The rows by the column that was chosen; as they came where none was. What has no value stands last. */
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

  /** How a column is ordered, as `aria-sort` says it; undefined for one that cannot be. */
  order(column) {
    if (!column.by) return undefined;
    if (this.sort === named(column)) return "ascending";
    return this.sort === `-${named(column)}` ? "descending" : "none";
  }

  /** The head of a column: a button where it can be ordered. */
  head(column) {
    if (!column.by) return column.head ?? column.name;
    const onclick = () => {
      const name = named(column);
      // Of numbers the great ones are looked for, of names and of what is to come the first.
      const [first, second] = column.right && !column.rising ? [`-${name}`, name] : [name, `-${name}`];
      this.sort = this.sort === first ? second : first;
      this.told();
      this.redraw();
    };
    return h("button", { type: "button", class: "sorter", onclick }, column.name);
  }

  told() {
    rewrite(this.path, { find: this.find, sort: this.sort });
  }
}

function named(column) {
  return column.name.toLowerCase().replaceAll(" ", "-");
}

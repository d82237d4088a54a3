/** Rows in pages: the first page is live, further ones are loaded; no row is shown twice, and none is lost in between. */

/** `cursor` is that of the next page, null if there is none. `key` identifies rows, `behind(row, other)` returns whether one belongs on a later page than the other. */
export class Pages {
  constructor(key, behind) {
    Object.assign(this, { key, behind, first: null, older: [], cursor: null, loaded: false, loading: false });
  }

  /** Replace the first page: rows that new ones pushed off it are kept while further pages are loaded. */
  fresh(rows, cursor) {
    if (!this.loaded) this.cursor = cursor;
    const last = rows.at(-1);
    if (this.older.length && last) {
      const kept = new Set(rows.map(this.key));
      const pushed = this.first.filter((row) => !kept.has(this.key(row)) && this.behind(row, last));
      this.older = [...pushed, ...this.older];
    }
    this.first = rows;
  }

  /** Load the next page by `ask(cursor)`, one request at a time; returns its response. */
  async more(ask) {
    if (this.loading) return null;
    this.loading = true;
    try {
      const page = await ask(this.cursor);
      if (page) Object.assign(this, { older: [...this.older, ...page.rows], cursor: page.cursor, loaded: true });
      return page ?? null;
    } finally {
      this.loading = false;
    }
  }

  /** All rows, those of the first page first. */
  all() {
    const seen = new Set();
    return [...(this.first ?? []), ...this.older].filter((row) => !seen.has(this.key(row)) && seen.add(this.key(row)));
  }
}

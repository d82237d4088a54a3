/** Rows in pages: the first page is live, further ones are loaded; no row is shown twice, and none is lost in between. */

/** `key` identifies rows, `behind(row, other)` returns whether one belongs on a later page than the other. */
export class Pages {
  constructor(key, behind) {
    Object.assign(this, { key, behind, first: null, older: [], loading: false });
  }

  /** Replace the first page: rows that new ones pushed off it are kept while further pages are loaded. */
  fresh(rows) {
    const last = rows.at(-1);
    if (this.older.length && last) {
      const kept = new Set(rows.map(this.key));
      const pushed = this.first.filter((row) => !kept.has(this.key(row)) && this.behind(row, last));
      this.older = [...pushed, ...this.older];
    }
    this.first = rows;
  }

  /** Load further rows by `ask(last row)`, one request at a time; returns its response. */
  async more(ask, rowsOf) {
    if (this.loading) return null;
    this.loading = true;
    try {
      const answer = await ask(this.all().at(-1));
      if (answer) this.older = [...this.older, ...rowsOf(answer)];
      return answer ?? null;
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

/** Rows in pages: the first one is live, further ones were asked for; none is shown twice, and none gets lost between. */

/** `key` tells rows apart, `behind(row, other)` says whether one belongs on a later page than the other. */
export class Pages {
  constructor(key, behind) {
    Object.assign(this, { key, behind, first: null, older: [], loading: false });
  }

  /** The first page has changed: what others have pushed off it is kept while there are further ones behind it. */
  fresh(rows) {
    const last = rows.at(-1);
    if (this.older.length && last) {
      const there = new Set(rows.map(this.key));
      const pushed = this.first.filter((row) => !there.has(this.key(row)) && this.behind(row, last));
      this.older = [...pushed, ...this.older];
    }
    this.first = rows;
  }

  /** Ask for further ones by `ask(last row)`, once at a time; returns what it has answered. */
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

  /** Every row, those of the first page first. */
  all() {
    const seen = new Set();
    return [...(this.first ?? []), ...this.older].filter((row) => !seen.has(this.key(row)) && seen.add(this.key(row)));
  }
}

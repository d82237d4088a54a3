/** Rows in pages: the first one is live, older ones were asked for; none is shown twice, and none gets lost between. */

/** `key` tells rows apart, `rank` is the number by which they fall: what has a smaller one is older. */
export class Pages {
  constructor(key, rank) {
    Object.assign(this, { key, rank, first: null, older: [], loading: false });
  }

  /** The first page has changed: what newer rows have pushed off it is kept while there are older ones behind it. */
  fresh(rows) {
    const last = rows.at(-1);
    if (this.older.length && last) {
      const there = new Set(rows.map(this.key));
      const pushed = this.first.filter((row) => !there.has(this.key(row)) && this.rank(row) < this.rank(last));
      this.older = [...pushed, ...this.older];
    }
    this.first = rows;
  }

  /** Ask for older ones by `ask(last row)`, once at a time; returns what it has answered. */
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

  /** Every row, newest first. */
  all() {
    const seen = new Set();
    return [...(this.first ?? []), ...this.older].filter((row) => !seen.has(this.key(row)) && seen.add(this.key(row)));
  }
}

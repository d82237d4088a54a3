/** `<ms-databases>`: the choice of another database of the fleet, with a search. The current screen stays. */

import { get, home } from "../api.js";
import { h, render } from "../view.js";
import { count } from "../format.js";
import { databaseHref, here } from "../router.js";
import { icon } from "./icons.js";

const DELAY = 150;

class Databases extends HTMLElement {
  #current = "";
  #open = false;
  #find = "";
  #found = { names: [], found: 0 };
  #at = 0;
  #wrong = "";
  #asked = 0;
  #timer = null;

  set current(name) {
    this.#current = name;
    this.#draw();
  }

  connectedCallback() {
    this.addEventListener("focusout", (event) => {
      if (!this.contains(event.relatedTarget)) this.#close();
    });
    this.#draw();
  }

  /** Open the list, with the search focused. */
  show() {
    Object.assign(this, { className: "open" });
    this.#open = true;
    this.#find = "";
    this.#draw();
    this.querySelector("input").focus();
    this.#ask();
  }

  #close({ focus = false } = {}) {
    if (!this.#open) return;
    this.className = "";
    this.#open = false;
    clearTimeout(this.#timer);
    this.#draw();
    if (focus) this.querySelector("button").focus();
  }

  async #ask() {
    const asked = (this.#asked += 1);
    try {
      const found = await get("databases/names", { find: this.#find }, home);
      if (asked !== this.#asked) return; // an earlier question that was answered later
      this.#found = found;
      this.#wrong = "";
      this.#at = Math.max(0, this.#find ? 0 : found.names.findIndex(({ name }) => name === this.#current));
    } catch (refusal) {
      this.#wrong = refusal.message;
    }
    this.#draw();
    this.#reveal();
  }

  #typed(event) {
    this.#find = event.target.value;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), DELAY);
  }

  #pressed(event) {
    const last = this.#found.names.length - 1;
    const moves = { ArrowDown: this.#at + 1, ArrowUp: this.#at - 1, PageDown: this.#at + 8, PageUp: this.#at - 8 };
    if (event.key in moves) {
      this.#at = Math.max(0, Math.min(last, moves[event.key]));
      this.#draw();
      this.#reveal();
    } else if (event.key === "Enter" && last >= 0) {
      this.#go(this.#found.names[this.#at].name);
    } else if (event.key === "Escape") {
      this.#close({ focus: true });
    } else {
      return;
    }
    event.preventDefault();
  }

  #go(name) {
    const { path, query } = here();
    // A message or a join is in one database only.
    const [first, id] = path.split("/");
    const alone = (first === "messages" || first === "joins") && id;
    location.assign(alone ? databaseHref(name, first) : databaseHref(name, path, query));
  }

  #reveal() {
    this.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  #draw() {
    if (!this.isConnected) return;
    const label = `Database: ${this.#current}`;
    const toggle = () => (this.#open ? this.#close({ focus: true }) : this.show());
    render(
      this,
      h(
        "button",
        { type: "button", class: "button", onclick: toggle, title: "Another database (g n)", "aria-label": label, "aria-haspopup": "listbox", "aria-expanded": String(this.#open) },
        h("span", { class: "cut" }, this.#current),
        icon("down"),
      ),
      this.#open && this.#list(),
    );
  }

  #list() {
    const { names, found } = this.#found;
    const option = ({ name, status }, place) =>
      h(
        "li",
        {
          key: name,
          id: `database-${place}`,
          role: "option",
          "aria-selected": String(place === this.#at),
          // The search keeps the focus: without it the list would close before the click.
          onmousedown: (event) => event.preventDefault(),
          onclick: () => this.#go(name),
        },
        h("i", { class: `dot ${status ?? ""}`, title: status ?? "not read yet" }),
        h("span", { class: "cut grow", title: name }, name),
        name === this.#current && h("span", { class: "faint" }, "here"),
      );
    const rest = found > names.length && `${count(found - names.length)} more: type a part of the name`;
    return h(
      "div",
      { class: "card choices" },
      h("input", {
        type: "search",
        role: "combobox",
        placeholder: "Find a database",
        "aria-label": "Find a database",
        "aria-expanded": "true",
        "aria-controls": "databases",
        "aria-autocomplete": "list",
        "aria-activedescendant": names.length ? `database-${this.#at}` : undefined,
        autocomplete: "off",
        spellcheck: "false",
        value: this.#find,
        oninput: (event) => this.#typed(event),
        onkeydown: (event) => this.#pressed(event),
      }),
      h("ul", { id: "databases", role: "listbox", "aria-label": "Databases" }, names.map(option)),
      this.#wrong && h("p", { class: "wrong", role: "alert" }, this.#wrong),
      !names.length && !this.#wrong && h("p", { class: "faint" }, this.#find ? "No matches." : "Loading …"),
      rest && h("p", { class: "faint" }, rest),
      h("a", { href: `${home}/` }, "All databases"),
    );
  }
}

customElements.define("ms-databases", Databases);

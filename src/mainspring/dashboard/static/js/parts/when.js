/** `<ms-when at="…">`: a relative time that updates itself; the full time is in its title. */

import { clock, exact, span } from "../format.js";

const shown = new Set();
let skew = 0;

/** "Now" is the server's time: a client whose clock is off must not show work from the future. */
export function serverTime(now) {
  skew = Date.parse(now) - Date.now();
}

/** The server's current time, in milliseconds. */
export function now() {
  return Date.now() + skew;
}

class When extends HTMLElement {
  static observedAttributes = ["at", "as"];

  connectedCallback() {
    shown.add(this);
    this.tick();
  }

  disconnectedCallback() {
    shown.delete(this);
  }

  attributeChangedCallback() {
    if (this.isConnected) this.tick();
  }

  tick() {
    const at = this.getAttribute("at");
    if (!at) {
      this.textContent = "–";
      this.removeAttribute("title");
      return;
    }
    const text = this.words(at);
    if (this.textContent !== text) this.textContent = text;
    const title = exact(at);
    if (this.title !== title) this.title = title;
  }

  words(at) {
    const seconds = (Date.parse(at) - now()) / 1000;
    switch (this.getAttribute("as")) {
      case "age":
        return span(Math.max(0, Math.floor(-seconds)));
      case "clock":
        return clock(at);
      case "countdown":
        return seconds <= 0 ? "now" : span(Math.ceil(seconds));
      default:
        if (Math.abs(seconds) < 1) return "now";
        return seconds > 0 ? `in ${span(Math.ceil(seconds))}` : `${span(Math.floor(-seconds))} ago`;
    }
  }
}

customElements.define("ms-when", When);
setInterval(() => {
  if (!document.hidden) for (const each of shown) each.tick();
}, 1000);

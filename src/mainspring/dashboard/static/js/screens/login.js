/** The door: who has a token may come in. */

import { post } from "../api.js";
import { h } from "../view.js";
import { icon } from "../parts/icons.js";
import { button } from "../parts/pieces.js";

let tried = false;
let refused = "";

/** The page for who is not known yet. A token after the `#` of the address is taken at once, and not kept there. */
export function login(me, entered) {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given && me.login && !tried) {
    tried = true;
    history.replaceState(null, "", location.pathname);
    post("login", { token: given }).then(entered, () => {
      refused = "The token in this link is no longer good: it was for an earlier run, or has been changed.";
      entered();
    });
  }
  const brand = h("div", { class: "brand" }, icon("spring"), "Mainspring", h("span", { class: "of" }, me.app));
  if (!me.login) {
    const text = "The application that serves this page decides who may see it, and it does not know you.";
    return h("div", { class: "door" }, h("form", { class: "card" }, brand, h("p", { class: "soft" }, text)));
  }
  return h(
    "div",
    { class: "door" },
    h(
      "form",
      { class: "card", onsubmit: (event) => enter(event, entered) },
      brand,
      h(
        "label",
        { class: "field" },
        h("span", null, "Token"),
        h("input", {
          type: "password",
          name: "token",
          autocomplete: "current-password",
          autofocus: true,
          required: true,
        }),
      ),
      h("p", { class: "wrong", role: "alert", hidden: !refused }, refused),
      button("Log in", null, { kind: "main-act", type: "submit" }),
      h(
        "p",
        { class: "faint" },
        "As an operator or a viewer: the token says which. Whoever has set up the dashboard has it.",
      ),
    ),
  );
}

async function enter(event, entered) {
  event.preventDefault();
  const form = event.target;
  const wrong = form.querySelector(".wrong");
  try {
    await post("login", { token: form.elements.token.value });
    await entered();
  } catch (refusal) {
    wrong.textContent = refusal.message;
    wrong.hidden = false;
    form.elements.token.select();
  }
}

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
  if (given) history.replaceState(null, "", location.pathname);
  if (given && me.login && !tried) {
    tried = true;
    post("login", { token: given }).then(entered, (refusal) => {
      refused = wrong(refusal);
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
        "As an operator or a viewer: the token says which. The operators of the dashboard have it.",
      ),
    ),
  );
}

function wrong(refusal) {
  if (refusal.code !== "wrong_token") return refusal.message;
  return "The token in this link is no longer good: it was for an earlier run, or has been changed.";
}

async function enter(event, entered) {
  event.preventDefault();
  const form = event.target;
  const told = form.querySelector(".wrong");
  const button = form.querySelector("button");
  told.hidden = true;
  button.disabled = true; // a wrong token is answered after a second
  try {
    await post("login", { token: form.elements.token.value });
    await entered();
  } catch (refusal) {
    told.textContent = refusal.message;
    told.hidden = false;
    form.elements.token.select();
  } finally {
    button.disabled = false;
  }
}

/** The login page. */

import { post } from "../api.js";
import { h } from "../view.js";
import { icon } from "../parts/icons.js";
import { button } from "../parts/pieces.js";

let tried = false;
let refused = "";

/** Shows the login page. A token after the `#` of the URL is used at once, and removed from it. */
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
    const text = "The application that serves this page controls access to it: log in there.";
    return h("div", { class: "door" }, h("form", { class: "card" }, brand, h("p", { class: "soft" }, text)));
  }
  return h(
    "div",
    { class: "door" },
    h(
      "form",
      { class: "card", onsubmit: (event) => logIn(event, entered) },
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
        "The token determines the role, operator or viewer. Ask the operators of the dashboard for one.",
      ),
    ),
  );
}

function wrong(refusal) {
  if (refusal.code !== "wrong_token") return refusal.message;
  return "The token in this link is no longer valid: it was for an earlier run, or has been changed.";
}

async function logIn(event, entered) {
  event.preventDefault();
  const form = event.target;
  const error = form.querySelector(".wrong");
  const button = form.querySelector("button");
  error.hidden = true;
  button.disabled = true; // the response to a wrong token takes a second
  try {
    await post("login", { token: form.elements.token.value });
    await entered();
  } catch (refusal) {
    error.textContent = refusal.message;
    error.hidden = false;
    form.elements.token.select();
  } finally {
    button.disabled = false;
  }
}

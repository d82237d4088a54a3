/** Requests to the server. */

export const root = document.querySelector('meta[name="mainspring-root"]').content;

/** The path of the whole dashboard: above the pages of one database of a fleet, that of the fleet's overview. */
export const home = document.querySelector('meta[name="mainspring-home"]').content;

/** Whether these are the pages of one database of a fleet, where nothing works while there is nothing to do. */
export const inFleet = root !== home;

let csrf = "";

/** An error response. `status` 0: the server could not be reached. */
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Send a GET request; `within` is the path whose API answers. */
export async function get(path, query, within = root) {
  return answer(await send(address(path, query, within), { headers: { Accept: "application/json" } }));
}

/** Send a POST request; requires the operator role. */
export async function post(path, body = {}) {
  const headers = { Accept: "application/json", "Content-Type": "application/json", "X-Mainspring-Csrf": csrf };
  return answer(await send(address(path), { method: "POST", headers, body: JSON.stringify(body) }));
}

/** Read the session, with the CSRF token that every change must send. */
export async function session() {
  const found = await get("session");
  csrf = found.csrf ?? "";
  return found;
}

/** Return the URL of a route with its query; empty values are omitted, and a list is one parameter per value. */
export function address(path, query, within = root) {
  const pairs = Object.entries(query ?? {})
    .flatMap(([name, value]) => [value].flat().map((each) => [name, each]))
    .filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(pairs).toString();
  return `${within}/api/${path}${search ? `?${search}` : ""}`;
}

async function send(url, options) {
  try {
    return await fetch(url, { ...options, credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new Refusal(0, "unreachable", "The dashboard's server does not respond.");
  }
}

async function answer(response) {
  if (response.status === 204) return null;
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  const error = body?.error ?? { code: "unknown", message: `The server responded with status ${response.status}.` };
  throw new Refusal(response.status, error.code, error.message);
}

/** Formatting of numbers, times and sizes. */

const whole = new Intl.NumberFormat("en");
const UNITS = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** 12,345. */
export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** A count that stops at a cap: "10,000+" means that there may be more. */
export function capped(value, cap) {
  return cap && value >= cap ? `${whole.format(cap)}+` : whole.format(value);
}

/** A rate per second. */
export function rate(value) {
  if (!value) return "0";
  if (value < 0.1) return "<0.1";
  return value < 10 ? value.toFixed(1) : whole.format(Math.round(value));
}

/** A duration in its two largest units: 2 h 5 min, 340 ms. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const length = Math.abs(seconds);
  if (!length) return "0 s";
  if (length < 0.001) return `${Math.round(length * 1e6)} µs`;
  if (length < 1) return `${trimmed(length * 1000)} ms`;
  if (length < 10) return `${trimmed(length)} s`;
  const at = UNITS.findIndex(([, size]) => length >= size);
  const [unit, size] = UNITS[at];
  const first = Math.floor(length / size);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((length % size) / next[1]) : 0;
  return rest && first < 20 ? `${first} ${unit} ${rest} ${next[0]}` : `${first} ${unit}`;
}

function trimmed(value) {
  return value >= 100 ? Math.round(value).toString() : Number(value.toPrecision(2)).toString();
}

/** Seconds from one instant to another. */
export function between(from, to) {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

/** The instant in the browser's local time. */
export function clock(instant, seconds = true) {
  const at = new Date(instant);
  const time = at.toLocaleTimeString("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    ...(seconds && { second: "2-digit" }),
  });
  return sameDay(at, new Date()) ? time : `${day(at)} ${time}`;
}

/** A local time of a zone, which the server sends without an offset: it is not converted. */
export function wall(local) {
  const shown = new Date(`${local}Z`);
  const year = local.startsWith(new Date().getFullYear()) ? {} : { year: "numeric" };
  const day = { weekday: "short", day: "numeric", month: "short", timeZone: "UTC", ...year };
  return `${shown.toLocaleDateString("en-GB", day)}, ${local.slice(11).replace(/:00$/, "")}`;
}

/** The instant in full, for titles. */
export function exact(instant) {
  const at = new Date(instant);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return `${at.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "medium" })} (${zone})\n${at.toISOString()}`;
}

function day(at) {
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...year });
}

function sameDay(one, other) {
  return one.toDateString() === other.toDateString();
}

/** 1.2 KB. */
export function bytes(size) {
  if (size < 1024) return `${size} B`;
  return size < 1024 ** 2 ? `${(size / 1024).toFixed(1)} KB` : `${(size / 1024 ** 2).toFixed(1)} MB`;
}

/** The end of an id: ids of the same second begin alike. */
export function brief(id) {
  return `…${id.slice(-8)}`;
}

/** "1 message", "3 messages". */
export function many(number, noun, plural = `${noun}s`) {
  return `${whole.format(number)} ${number === 1 ? noun : plural}`;
}

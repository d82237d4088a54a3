/** The icons, as lines on a grid of 24. */

import { h } from "../view.js";

const PATHS = {
  overview: "M4 20V10M10 20V4M16 20v-7M20.500 20H3.500",
  messages: "M4 6h16v12H4zM4 7l8 6 8-6",
  consumers: "M12 3v4M12 17v4M3 12h4M17 12h4M12 8.500a3.500 3.500 0 1 1 0 7 3.500 3.500 0 0 1 0-7z",
  schedules: "M12 4a8.500 8.500 0 1 1 0 17 8.500 8.500 0 0 1 0-17zM12 8v4.500l3 2",
  dead: "M6 21V9a6 6 0 0 1 12 0v12zM4 21h16M12 9v5M10 11h4",
  brokers: "M4 8h12M12.500 4.500 16 8l-3.500 3.500M20 16H8M11.500 12.500 8 16l3.500 3.500",
  inbox: "M4 13h4l1.500 3h5l1.500-3h4M4 13l2.500-8h11L20 13v6H4z",
  joins: "M4 5h4l4 7h8M4 19h4l4-7M17 9l3 3-3 3",
  leases: "M7 11V8a5 5 0 0 1 10 0v3M5 11h14v9H5zM12 15v2",
  fanouts: "M4 12h5l8-7M9 12h9M9 12l8 7M17 5h3M18 12h2M17 19h3",
  workers: "M4 5h16v6H4zM4 13h16v6H4zM7.500 8h.01M7.500 16h.01",
  audit: "M6 3h9l4 4v14H6zM9 11h7M9 15h7M14.500 3v5H19",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.400 1.400M17.600 17.600 19 19M19 5l-1.400 1.400M6.400 17.600 5 19",
  moon: "M20 14.500A8.500 8.500 0 1 1 9.500 4a7 7 0 0 0 10.500 10.500z",
  keys: "M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8",
  back: "M19 12H5M11 6l-6 6 6 6",
  down: "M6 9.500l6 6 6-6",
  spring:
    "M12 12a1.400 1.400 0 0 1 1.400 1.400A2.900 2.900 0 0 1 10 16.200a4.300 4.300 0 0 1-2.800-5A5.700 5.700 0 0 1 14 6.800a7 7 0 0 1 4.900 8.300A8.500 8.500 0 0 1 8.500 21.200",
};

/** One icon; it is decorative and hidden from screen readers. */
export function icon(name) {
  const drawing = { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": 1.8 };
  return h(
    "svg",
    { ...drawing, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" },
    h("path", { d: PATHS[name] }),
  );
}

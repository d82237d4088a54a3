/**
  * `<ms-chart>`: a time series, drawn as SVG.
 *
  * Its `.data` is `{ at: [instants], span, bars: [{name, mark, values}] | lines: [{name, mark, values}], format }`: bars
  * are stacked, lines use a logarithmic scale, for latencies; `format` returns a value as text.
 */

import { h, render } from "../view.js";
import { clock } from "../format.js";

const LEFT = 44;
const RIGHT = 6;
const TOP = 8;
const BOTTOM = 20;

class Chart extends HTMLElement {
  connectedCallback() {
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this);
    this.addEventListener("pointermove", (event) => this.point(event));
    this.addEventListener("pointerleave", () => this.leave());
  }

  disconnectedCallback() {
    this.observer.disconnect();
  }

  set data(data) {
    this.given = data;
    this.draw();
  }

  point(event) {
    const box = this.getBoundingClientRect();
    const { at } = this.given;
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    this.pointed = Math.min(at.length - 1, Math.max(0, Math.floor(share * at.length)));
    this.draw();
  }

  leave() {
    this.pointed = undefined;
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this;
    if (!this.given || !width || !this.isConnected) return;
    const data = this.given;
    const scale = data.bars ? linear(data.bars, height) : logarithmic(data.lines, height);
    const step = (width - LEFT - RIGHT) / data.at.length;
    const middle = (index) => LEFT + step * (index + 0.5);
    const pieces = [
      scale.ticks.map((tick) => gridline(tick, scale, width, data.format)),
      hours(data, middle, height, width),
      data.bars ? bars(data.bars, step, scale) : data.lines.map((each) => line(each, middle, scale)),
    ];
    if (this.pointed !== undefined) {
      const x = middle(this.pointed);
      pieces.push(h("line", { class: "cross", x1: x, x2: x, y1: TOP, y2: height - BOTTOM }));
    }
    const drawn = h("svg", { width, height, role: "img", "aria-label": data.label }, pieces);
    render(this, drawn, this.pointed !== undefined && tip(data, this.pointed, middle(this.pointed), width));
    // The page's policy forbids style attributes, but not style properties.
    const box = this.querySelector(".tip");
    if (box) place(box, middle(this.pointed), width);
  }
}

customElements.define("ms-chart", Chart);

function place(box, x, width) {
  box.style.left = x > width / 2 ? "auto" : `${x + 10}px`;
  box.style.right = x > width / 2 ? `${width - x + 10}px` : "auto";
}

function linear(series, height) {
  const sums = series[0].values.map((_, index) => series.reduce((sum, each) => sum + each.values[index], 0));
  const most = nice(Math.max(...sums, 0));
  const room = height - TOP - BOTTOM;
  const y = (value) => TOP + room * (1 - value / most);
  return { y, floor: height - BOTTOM, ticks: [0, most / 2, most] };
}

function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}

function logarithmic(series, height) {
  const values = series.flatMap((each) => each.values).filter((value) => value !== null && value > 0);
  const lowest = values.length ? Math.floor(Math.log10(Math.min(...values))) : -3;
  const highest = values.length ? Math.ceil(Math.log10(Math.max(...values))) : 0;
  const top = highest > lowest ? highest : lowest + 1;
  const room = height - TOP - BOTTOM;
  const y = (value) => TOP + room * (1 - (Math.log10(Math.max(value, 10 ** lowest)) - lowest) / (top - lowest));
  const every = Math.ceil((top - lowest) / 4);
  const ticks = [];
  for (let power = lowest; power <= top; power += every) ticks.push(10 ** power);
  return { y, floor: height - BOTTOM, ticks };
}

function gridline(tick, scale, width, format) {
  const y = Math.round(scale.y(tick)) + 0.5;
  return [
    h("line", { class: y >= scale.floor ? "axis" : "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
    h("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, format(tick)),
  ];
}

function hours(data, middle, height, width) {
  const wanted = Math.max(2, Math.floor((width - LEFT) / 110));
  const every = Math.max(1, Math.ceil(data.at.length / wanted));
  return data.at.map((at, index) => {
    if (index % every || middle(index) > width - 40) return null;
    return h("text", { x: middle(index), y: height - 4, "text-anchor": "middle" }, clock(at, data.span < 60));
  });
}

function bars(series, step, scale) {
  const width = Math.max(1, step - (step > 4 ? 1.5 : 0.5));
  return series[0].values.map((_, index) => {
    let below = 0;
    return series.map(({ mark, values }) => {
      const from = below;
      below += values[index];
      if (!values[index]) return null;
      const y = scale.y(below);
      return h("rect", { class: mark, x: LEFT + step * index, y, width, height: Math.max(0.8, scale.y(from) - y) });
    });
  });
}

function line({ mark, values }, middle, scale) {
  let path = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) {
      pen = "M";
      return;
    }
    const x = middle(index).toFixed(1);
    const y = scale.y(value).toFixed(1);
    // A single value between gaps would be a line without length: it gets a short one.
    path += pen === "M" && values[index + 1] == null ? `M${x - 1},${y}L${Number(x) + 1},${y}` : `${pen}${x},${y}`;
    pen = "L";
  });
  return h("path", { class: `line ${mark}`, d: path || "M0,0" });
}

function tip(data, index) {
  const rows = [...(data.bars ?? data.lines)].reverse().map(({ name, values }) => {
    const value = values[index];
    return h("div", null, `${name} `, h("b", null, value === null ? "–" : data.format(value)));
  });
  return h("div", { class: "tip" }, h("div", { class: "faint" }, clock(data.at[index], data.span < 60)), rows);
}

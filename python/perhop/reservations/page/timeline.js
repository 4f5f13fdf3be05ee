// What is booked and free on every link, and choosing a stretch of it by mouse, finger or keys.

import { drawing, element, rate, utc } from "./parts.js";

const WIDTH = 1000;
const HEIGHT = 40;
const STEPS = 96; // what a selection is rounded to

export class Timeline {
  constructor(place, network, choose) {
    this.place = place;
    this.links = network.links.filter((link) => link.reservable > 0);
    this.choose = choose;
  }

  draw(free, start, end) {
    this.start = start;
    this.end = end;
    this.step = Math.max(1, Math.round((end - start) / STEPS));
    const focused = document.activeElement?.dataset?.link;
    const rows = this.links.map((link) => this.row(link, free[link.name] ?? []));
    const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => start + part * (end - start));
    const axis = element("div", { class: "axis", "aria-hidden": "true" },
      ...marks.map((mark) => element("span", {}, utc(mark).slice(5))));
    this.place.replaceChildren(...rows, axis);
    if (focused) this.place.querySelector(`[data-link="${CSS.escape(focused)}"]`)?.focus();
  }

  x(second) {
    return ((second - this.start) / (this.end - this.start)) * WIDTH;
  }

  row(link, stretches) {
    const least = Math.min(...stretches.map((each) => each.free), link.reservable);
    const chart = drawing("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", tabindex: "0", role: "button",
      "data-link": link.name,
      "aria-label": `${link.name}: ${rate(least)} of ${rate(link.reservable)} free throughout; ` +
        "arrow keys choose a time, Enter books it",
    });
    chart.append(drawing("rect", { class: "room", width: WIDTH, height: HEIGHT }));
    for (const each of stretches) {
      const share = Math.max(0, link.reservable - each.free) / link.reservable;
      if (share === 0) continue;
      const height = Math.min(1, share) * HEIGHT;
      const [x, to] = [this.x(each.start), this.x(each.end)];
      const bar = drawing("rect", { class: "booked", x, y: HEIGHT - height, width: to - x, height });
      const text = `${utc(each.start)} to ${utc(each.end)}: ${rate(each.free)} free`;
      bar.append(drawing("title", {}, text));
      chart.append(bar);
    }
    const now = Date.now() / 1000;
    if (this.start < now && now < this.end) {
      chart.append(drawing("line", { class: "now", x1: this.x(now), x2: this.x(now), y2: HEIGHT }));
    }
    this.listen(chart, link, stretches);
    const name = element("span", { class: "name" }, `${link.name}`);
    name.append(element("br"), element("small", {}, `${rate(link.reservable)}`));
    return element("div", { class: "link" }, name, chart);
  }

  listen(chart, link, stretches) {
    const mark = drawing("rect", { class: "selected", height: HEIGHT, width: 0 });
    chart.append(mark);
    let from = null;
    let to = null;
    const show = () => {
      const [a, b] = [Math.min(from, to), Math.max(from, to)];
      mark.setAttribute("x", this.x(a));
      mark.setAttribute("width", Math.max(0, this.x(b) - this.x(a)));
    };
    const second = (event) => {
      const box = chart.getBoundingClientRect();
      const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      return this.round(this.start + part * (this.end - this.start));
    };
    const done = () => {
      const earliest = Math.ceil(Date.now() / 1000) + 5;
      const a = Math.max(Math.min(from, to), earliest);
      const b = Math.max(from, to);
      if (b <= a) return;
      const inside = stretches.filter((each) => each.start < b && each.end > a);
      const free = Math.max(0, Math.min(...inside.map((each) => each.free), link.reservable));
      this.choose({ start: a, end: b, free, link });
    };
    chart.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      chart.setPointerCapture(event.pointerId);
      from = to = second(event);
      show();
    });
    chart.addEventListener("pointermove", (event) => {
      if (!chart.hasPointerCapture(event.pointerId)) return;
      to = second(event);
      show();
    });
    chart.addEventListener("pointerup", (event) => {
      if (!chart.hasPointerCapture(event.pointerId)) return;
      to = second(event);
      if (to === from) to = from + this.step;
      show();
      done();
    });
    chart.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -this.step, ArrowRight: this.step }[event.key];
      if (from === null && (by || event.key === "Enter")) {
        from = this.round(Math.max(this.start, Date.now() / 1000 + this.step));
        to = from + this.step;
      } else if (by && event.shiftKey) {
        to = Math.max(from + this.step, Math.min(this.end, to + by));
      } else if (by) {
        const length = to - from;
        from = Math.max(this.start, Math.min(this.end - length, from + by));
        to = from + length;
      }
      if (by) {
        event.preventDefault();
        show();
      } else if (event.key === "Enter") {
        event.preventDefault();
        show();
        done();
      }
    });
  }

  round(second) {
    return this.start + Math.round((second - this.start) / this.step) * this.step;
  }
}

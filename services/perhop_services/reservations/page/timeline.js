// What is booked and free on every link, and choosing a stretch of it by mouse, finger or keys.

import { timeAxis, timeMarks } from "./axes.js";
import { drawing, element, rate, utc } from "./parts.js";

const WIDTH = 1000;
const HEIGHT = 40;
const STEPS = 96; // what a selection is rounded to

export class Timeline {
  constructor(place, readout, network, choose) {
    this.place = place;
    this.readout = readout;
    this.links = network.links.filter((link) => link.reservable > 0);
    this.choose = choose;
  }

  draw(free, start, end) {
    this.start = start;
    this.end = end;
    this.step = Math.max(1, Math.round((end - start) / STEPS));
    // As many marks as there is room for what stands at them.
    this.most = this.place.clientWidth < 500 ? 4 : 12;
    const focused = document.activeElement?.dataset?.link;
    const rows = this.links.map((link) => this.row(link, free[link.name] ?? []));
    this.place.replaceChildren(...rows, timeAxis(start, end, this.most));
    this.place.dataset.start = start;
    this.place.dataset.seconds = end - start;
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
    for (const mark of timeMarks(this.start, this.end, this.most).marks) {
      chart.append(drawing("line", { class: "grid", x1: this.x(mark), x2: this.x(mark), y2: HEIGHT }));
    }
    for (const each of stretches) {
      const share = Math.max(0, link.reservable - each.free) / link.reservable;
      if (share === 0) continue;
      // What is little beside the link is seen, too.
      const height = Math.max(1.5, Math.min(1, share) * HEIGHT);
      const [x, to] = [this.x(each.start), this.x(each.end)];
      chart.append(drawing("rect", { class: "booked", x, y: HEIGHT - height, width: to - x, height }));
    }
    const now = Date.now() / 1000;
    if (this.start < now && now < this.end) {
      chart.append(drawing("line", { class: "now", x1: this.x(now), x2: this.x(now), y2: HEIGHT }));
    }
    this.listen(chart, link, stretches);
    const name = element("span", { class: "name" }, `${link.name} `);
    name.append(element("small", {}, `${rate(link.reservable)}`));
    return element("div", { class: "link" }, name, chart);
  }

  // What is free on a link throughout a stretch.
  least(link, stretches, start, end) {
    const inside = stretches.filter((each) => each.start < end && each.end > start);
    return Math.max(0, Math.min(...inside.map((each) => each.free), link.reservable));
  }

  tell(link, stretches, start, end) {
    const free = rate(this.least(link, stretches, start, end));
    const until = utc(end).slice(utc(start).slice(0, 10) === utc(end).slice(0, 10) ? 11 : 0);
    this.readout.textContent =
      `${link.name}, ${utc(start)} to ${until}: ${free} of ${rate(link.reservable)} free`;
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
      if (b > a) this.tell(link, stretches, a, b);
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
      if (b <= a) {
        this.readout.textContent = "That is over; choose a time to come.";
        return;
      }
      this.choose({ start: a, end: b, free: this.least(link, stretches, a, b), link });
    };
    chart.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      chart.setPointerCapture(event.pointerId);
      from = to = second(event);
      show();
    });
    chart.addEventListener("pointermove", (event) => {
      const at = second(event);
      if (!chart.hasPointerCapture(event.pointerId)) {
        this.tell(link, stretches, at, at + this.step);
        return;
      }
      to = at;
      show();
    });
    chart.addEventListener("pointerup", (event) => {
      if (!chart.hasPointerCapture(event.pointerId)) return;
      to = second(event);
      if (to === from) to = from + this.step;
      show();
      done();
    });
    // A finger that scrolls has chosen nothing.
    chart.addEventListener("pointercancel", () => {
      from = to = null;
      mark.setAttribute("width", 0);
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

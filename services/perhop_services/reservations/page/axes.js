// Axes of time and of rates: where their marks are, and what stands at them.

import { element, rate, utc } from "./parts.js";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
  HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY,
  90 * DAY, 365 * DAY,
];

// Up to so many whole seconds, minutes, hours or days between two instants.
export function timeMarks(start, end, most) {
  const step = STEPS.find((each) => (end - start) / each <= most) ?? STEPS.at(-1);
  const marks = [];
  for (let at = Math.ceil(start / step) * step; at <= end; at += step) marks.push(at);
  return { step, marks };
}

// An axis as wide as the chart above it. Below a time stands the date, below a date the year: at the
// first mark, and where a new one begins. The style sheet keeps labels within the axis by their length.
export function timeAxis(start, end, most) {
  const { step, marks } = timeMarks(start, end, most);
  const [above, below] = step >= DAY ? [[5, 10], [0, 4]] : [[11, step < MINUTE ? 19 : 16], [5, 10]];
  let last = "";
  const labels = marks.map((mark) => {
    const [text, context] = [above, below].map((part) => utc(mark, true).slice(...part));
    const label = element("span", {}, text, ...(context === last ? [] : [element("br"), context]));
    last = context;
    label.style.setProperty("--at", `${((mark - start) / (end - start)) * 100}%`);
    label.style.setProperty("--length", text.length);
    return label;
  });
  return element("div", { class: "axis", "aria-hidden": "true" }, ...labels);
}

// Round rates from nothing up to the first that is above `most`.
export function rateMarks(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => most / each <= 5);
  const marks = [];
  for (let at = 0; marks.length < 2 || marks.at(-1) < most; at += 1) marks.push(at * step);
  return marks;
}

export function rateAxis(marks) {
  const top = marks.at(-1);
  const labels = marks.map((mark) => {
    const label = element("span", {}, rate(mark));
    label.style.bottom = `${(mark / top) * 100}%`;
    return label;
  });
  return element("div", { class: "rates", "aria-hidden": "true" }, ...labels);
}

// Throughput over time: what conformed, what exceeded, and what was reserved.

import { rateAxis, rateMarks, timeAxis, timeMarks } from "./axes.js";
import { drawing, element, rate, utc } from "./parts.js";

const [WIDTH, HEIGHT] = [1000, 200];

// Bits per second between two readings; a reading after the counters were cleared begins anew.
export function rates(counters) {
  const found = [];
  counters.forEach((each, place) => {
    const before = counters[place - 1];
    if (!before || before.epoch !== each.epoch || each.at_ms <= before.at_ms) return;
    const seconds = (each.at_ms - before.at_ms) / 1000;
    found.push({
      from: before.at_ms / 1000,
      to: each.at_ms / 1000,
      conformed: ((each.conformed_bytes - before.conformed_bytes) * 8) / seconds,
      exceeded: ((each.exceeded_bytes - before.exceeded_bytes) * 8) / seconds,
    });
  });
  return found;
}

export function throughput(own, counters, wide) {
  const found = rates(counters);
  if (!found.length) return [element("p", {}, "Nothing was counted yet.")];
  const [start, end] = [found[0].from, found.at(-1).to];
  const marks = rateMarks(Math.max(own.rate, ...found.flatMap((each) => [each.conformed, each.exceeded])));
  const x = (second) => ((second - start) / (end - start)) * WIDTH;
  const y = (bps) => HEIGHT - (bps / marks.at(-1)) * HEIGHT;
  // Counters that were cleared leave a gap: the values between the two readings are unknown.
  const line = (name) => drawing("path", {
    class: name,
    d: found.map((each, place) => {
      const [from, to, at] = [x(each.from), x(each.to), y(each[name])];
      return `${place && found[place - 1].to === each.from ? "L" : "M"}${from},${at}L${to},${at}`;
    }).join(""),
  });
  const seconds = found.reduce((sum, each) => sum + each.to - each.from, 0);
  const mean = (name) => found.reduce((sum, each) => sum + each[name] * (each.to - each.from), 0) / seconds;
  const label = `Conformed ${rate(mean("conformed"))} and exceeded ${rate(mean("exceeded"))} on ` +
    `average, of ${rate(own.rate)} reserved`;
  const chart = drawing("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  });
  const most = wide ? 10 : 4;
  for (const mark of timeMarks(start, end, most).marks) {
    chart.append(drawing("line", { class: "grid", x1: x(mark), x2: x(mark), y2: HEIGHT }));
  }
  for (const mark of marks) {
    chart.append(drawing("line", { class: "grid", x2: WIDTH, y1: y(mark), y2: y(mark) }));
  }
  chart.append(drawing("path", { class: "reserved", d: `M0,${y(own.rate)}L${WIDTH},${y(own.rate)}` }),
    line("exceeded"), line("conformed"));
  const last = counters.at(-1);
  const counted = (what) =>
    `${last[`${what}_packets`].toLocaleString("en")} packets, ${last[`${what}_bytes`].toLocaleString("en")} bytes`;
  return [
    element("p", {}, ...["conformed", "exceeded", "reserved"].map((name) =>
      element("span", { class: `key ${name}` }, `— ${name}`))),
    element("div", { class: "chart" }, rateAxis(marks), chart, timeAxis(start, end, most)),
    element("p", {}, `${utc(start)} to ${utc(end)} UTC. ${label}.`),
    element("p", {}, `Counted: conformed ${counted("conformed")}; exceeded ${counted("exceeded")}.`),
  ];
}

// A reservation: what it is, what its routers counted, what happened to it, and changing it.

import { api } from "./api.js";
import { drawing, editable, element, mbps, rate, say, utc, value } from "./parts.js";

export async function showReservation(place, number) {
  const path = `/reservations/${number}`;
  const [own, log, counters] = await Promise.all([
    api("GET", path), api("GET", `${path}/log`), api("GET", `${path}/counters`),
  ]);
  const again = () => showReservation(place, number);
  place.replaceChildren(
    element("h2", {}, `Reservation ${own.id}: ${own.state}`),
    facts(own), ...buttons(own, again), throughput(own, counters), history(log),
  );
}

function facts(own) {
  const arrow = { forward: "→", reverse: "←", both: "↔" }[own.direction];
  const ports = (both) => (both[0] === both[1] ? `${both[0]}` : `${both[0]}-${both[1]}`);
  const packets = [own.selector.protocol ?? "any protocol"];
  if (own.selector.source_ports) packets.push(`from port ${ports(own.selector.source_ports)}`);
  if (own.selector.destination_ports) packets.push(`to port ${ports(own.selector.destination_ports)}`);
  if (own.selector.dscp !== null) packets.push(`DSCP ${own.selector.dscp}`);
  const lines = [
    ["Owner", own.owner],
    ["Packets", `${own.source} ${arrow} ${own.destination}, ${packets.join(", ")}`],
    ["Rate", `${rate(own.rate)}, burst ${own.burst / 1000} kB`],
    ["Time", `${utc(own.start)} to ${utc(own.end)} UTC`],
    ["Path", own.path.join(" ")],
    ["Purpose", own.purpose],
  ];
  if (own.class) lines.push(["Class", own.class]);
  if (own.changing) lines.push(["Change", "new terms are being put in place"]);
  if (own.trouble) lines.push(["Trouble", own.trouble]);
  const parts = lines.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]);
  return element("dl", {}, ...parts);
}

function buttons(own, again) {
  if (!["held", "planned", "active"].includes(own.state)) return [];
  const act = (text, what) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => attempt(what, again));
    return button;
  };
  const path = `/reservations/${own.id}`;
  const found = [act("Cancel it", () => api("POST", `${path}/cancel`, { reason: "on the page" }))];
  if (own.state === "held") found.unshift(act("Commit", () => api("POST", `${path}/commit`)));
  if (own.state === "active") {
    found.push(act("Clear counters", () => api("DELETE", `${path}/counters`)));
  }
  const form = element("form", { class: "fields", "aria-label": "Change" },
    labelled("Rate (Mb/s)", { name: "rate", type: "number", step: "any", min: "0.000001", value: mbps(own.rate), required: "" }),
    labelled("Burst (kB)", { name: "burst", type: "number", step: "any", min: "1.5", value: own.burst / 1000, required: "" }),
    labelled("End (UTC)", { name: "end", type: "datetime-local", step: "1", value: editable(own.end), required: "" }),
    element("button", {}, "Change"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = form.elements;
    const change = {
      rate: Math.round(Number(given.rate.value) * 1e6),
      burst: Math.round(Number(given.burst.value) * 1e3),
      end: value(given.end.value),
      version: own.version,
    };
    attempt(() => api("PATCH", path, change), again);
  });
  return [element("div", { class: "buttons" }, ...found), form];
}

async function attempt(what, again) {
  try {
    await what();
    say("Done.");
  } catch (error) {
    say(error.message, true);
  }
  await again();
}

function labelled(text, attributes) {
  return element("label", {}, text, element("input", attributes));
}

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

function throughput(own, counters) {
  const place = element("section", { "aria-label": "Throughput" }, element("h2", {}, "Throughput"));
  const found = rates(counters);
  if (!found.length) {
    place.append(element("p", {}, "Nothing was counted yet."));
    return place;
  }
  const [start, end] = [found[0].from, found.at(-1).to];
  const top = Math.max(own.rate, ...found.flatMap((each) => [each.conformed, each.exceeded])) * 1.05;
  const [width, height] = [1000, 200];
  const x = (second) => ((second - start) / (end - start)) * width;
  const y = (bps) => height - (bps / top) * height;
  const line = (name) => drawing("polyline", {
    class: name,
    points: found.flatMap((each) => [[each.from, each[name]], [each.to, each[name]]])
      .map(([second, bps]) => `${x(second)},${y(bps)}`).join(" "),
  });
  const mean = (name) => found.reduce((sum, each) => sum + each[name] * (each.to - each.from), 0) /
    found.reduce((sum, each) => sum + each.to - each.from, 0);
  const label = `Conformed ${rate(mean("conformed"))} and exceeded ${rate(mean("exceeded"))} on ` +
    `average, of ${rate(own.rate)} reserved`;
  const chart = drawing("svg", {
    class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": label,
  });
  const reserved = `0,${y(own.rate)} ${width},${y(own.rate)}`;
  chart.append(line("exceeded"), line("conformed"),
    drawing("polyline", { class: "reserved", points: reserved }));
  const last = counters.at(-1);
  const packets = (what) => `${last[`${what}_packets`]} packets, ${last[`${what}_bytes`]} bytes`;
  place.append(
    element("p", {}, ...["conformed", "exceeded", "reserved"].map((name) =>
      element("span", { class: `key ${name}` }, `— ${name}`)), `up to ${rate(top)}`),
    chart, element("p", {}, `${utc(start)} to ${utc(end)} UTC. ${label}.`),
    element("p", {}, `Counted: conformed ${packets("conformed")}; exceeded ${packets("exceeded")}.`));
  return place;
}

function history(log) {
  const rows = log.map((entry) => {
    const changed = Object.entries(entry.detail).map(([name, [before, after]]) =>
      `${name}: ${JSON.stringify(before)} to ${JSON.stringify(after)}`);
    const reason = [entry.reason, ...changed].filter(Boolean).join("; ");
    return element("tr", {}, element("td", {}, utc(entry.at)), element("td", {}, entry.author),
      element("td", {}, entry.action), element("td", {}, entry.state),
      element("td", { class: "reason" }, reason));
  });
  const head = element("tr", {}, ...["When (UTC)", "Who", "What", "State", "Why"].map((name) =>
    element("th", {}, name)));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("section", { "aria-label": "Log" }, element("h2", {}, "Log"),
    element("div", { class: "scroll" }, table));
}

// A reservation: what it is, what its routers counted, what happened to it, and changing it.

import { api, mayOperate } from "./api.js";
import { throughput } from "./chart.js";
import { packets, ports, selector } from "./packets.js";
import { editable, element, mbps, rate, say, table, utc, value } from "./parts.js";

const LIVE = ["held", "planned", "active"];
const REFRESH = 5000;
const READINGS = 500;
const PAGE = 1000;

// The log comes in pages; after the last entry of one comes the next.
async function wholeLog(path) {
  const log = [];
  for (;;) {
    const page = await api("GET", `${path}/log?limit=${PAGE}&after=${log.at(-1)?.id ?? 0}`);
    log.push(...page);
    if (page.length < PAGE) return log;
  }
}

export async function showReservation(place, number) {
  const path = `/reservations/${number}`;
  const [own, log, counters] = await Promise.all([
    api("GET", path), wholeLog(path), api("GET", `${path}/counters?most=${READINGS}`),
  ]);
  const again = () => showReservation(place, number);
  place.dataset.number = number;
  place.replaceChildren(element("div", { class: "live" }), element("div", {}, ...actions(own, again)),
    section("Throughput"), section("Log"));
  draw(place, own, log, counters);
  clearInterval(place.timer);
  place.timer = setInterval(() => refresh(place, number, own), REFRESH);
}

// Shows what has changed without touching a form that is being filled in.
async function refresh(place, number, before) {
  if (place.dataset.number !== number || place.hidden) return clearInterval(place.timer);
  if (document.hidden) return undefined;
  const path = `/reservations/${number}`;
  try {
    const [own, log, counters] = await Promise.all([
      api("GET", path), wholeLog(path), api("GET", `${path}/counters?most=${READINGS}`),
    ]);
    if (place.dataset.number !== number || place.hidden) return undefined;
    // The permitted actions have changed; but a form that is being filled in stays.
    const busy = place.contains(document.activeElement) || place.querySelector("dialog[open]");
    if (own.state !== before.state && !busy) return await showReservation(place, number);
    draw(place, own, log, counters);
  } catch {
    // The next time will tell; what is shown stays.
  }
  return undefined;
}

function draw(place, own, log, counters) {
  const [live, , chart, history] = place.children;
  live.replaceChildren(element("h2", {}, `Reservation ${own.id}: ${own.state}`), facts(own));
  chart.replaceChildren(chart.firstChild, ...throughput(own, counters, document.body.clientWidth > 600));
  history.replaceChildren(history.firstChild, table("Log", ["When (UTC)", "Who", "What", "State", "Why"],
    log.map((entry) => [utc(entry.at, true), entry.author, entry.action, entry.state, why(entry)])));
}

function section(name) {
  return element("section", { "aria-label": name }, element("h2", {}, name));
}

function facts(own) {
  const arrow = { forward: "→", reverse: "←", both: "↔" }[own.direction];
  const lines = [
    ["Owner", own.owner],
    ["Packets", `${own.source} ${arrow} ${own.destination}, ${packets(own.selector)}`],
    ["Rate", `${rate(own.rate)}, burst ${own.burst / 1000} kB`],
    ["Time", `${utc(own.start)} to ${utc(own.end)} UTC`],
    ["Path", own.path.join(" ")],
  ];
  if (own.purpose) lines.push(["Purpose", own.purpose]);
  if (own.class) lines.push(["Class", own.class]);
  if (own.state === "held") lines.push(["Held", `until ${utc(own.hold_until, true)} UTC, to be committed`]);
  if (own.changing) lines.push(["Change", "new terms are being put in place"]);
  if (own.trouble) lines.push(["Trouble", own.trouble]);
  return element("dl", {}, ...lines.flatMap(([name, text]) =>
    [element("dt", {}, name), element("dd", {}, text)]));
}

function actions(own, again) {
  const path = `/reservations/${own.id}`;
  const act = (text, what) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => attempt(what, again));
    return button;
  };
  const found = [];
  if (own.state === "held") found.push(act("Commit", () => api("POST", `${path}/commit`)));
  if (own.state === "active") {
    found.push(act("Clear counters", () => api("DELETE", `${path}/counters`)));
  }
  if (mayOperate()) found.push(...configuration(own, path, act));
  if (!LIVE.includes(own.state)) return [element("div", { class: "buttons" }, ...found)];
  return [element("div", { class: "buttons" }, ...cancelling(path, again), ...found),
    changing(own, path, again)];
}

// A slip of the finger cancels nothing.
function cancelling(path, again) {
  const open = element("button", { type: "button" }, "Cancel it…");
  const reason = element("input", { name: "reason", maxlength: "1000" });
  const dialog = element("dialog", { "aria-label": "Cancel" }, element("form", { method: "dialog" },
    element("p", {}, "What it has in place is removed, and others may book what it had."),
    element("label", {}, "Why", reason),
    element("div", { class: "buttons" }, element("button", { value: "yes" }, "Cancel the reservation"),
      element("button", { value: "", formnovalidate: "" }, "Keep it"))));
  open.addEventListener("click", () => {
    dialog.returnValue = "";
    dialog.showModal();
  });
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "yes") return;
    attempt(() => api("POST", `${path}/cancel`, { reason: reason.value }), again);
  });
  return [open, dialog];
}

// What people enter where perhop does not reach, and saying that they have.
function configuration(own, path, act) {
  const text = element("pre", {}, "…");
  const details = element("details", { class: "wide" }, element("summary", {}, "Configuration"), text);
  const what = own.changing ? "change" : LIVE.includes(own.state) ? "set" : "remove";
  details.addEventListener("toggle", async () => {
    if (!details.open) return;
    try {
      text.textContent = (await api("GET", `${path}/configuration?what=${what}`)).configuration;
    } catch (error) {
      text.textContent = error.message;
    }
  });
  const waits = own.changing || (own.state === "planned" && own.trouble);
  const confirm = waits ? [act("Confirm that it is configured", () => api("POST", `${path}/confirm`))] : [];
  return [...confirm, details];
}

function changing(own, path, again) {
  const choice = element("select", { name: "protocol" }, element("option", { value: "" }, "any"),
    ...["tcp", "udp", "icmp"].map((name) => element("option", {}, name)));
  choice.value = own.selector.protocol ?? "";
  const form = element("form", { class: "fields", "aria-label": "Change" },
    labelled("Rate (Mb/s)", { name: "rate", type: "number", step: "any", min: "0.000001", value: mbps(own.rate), required: "" }),
    labelled("Burst (kB)", { name: "burst", type: "number", step: "any", min: "1.5", value: own.burst / 1000, required: "" }),
    labelled("End (UTC)", { name: "end", type: "datetime-local", step: "1", value: editable(own.end), required: "" }),
    element("label", {}, "Protocol", choice),
    labelled("Port", { name: "port", pattern: "[0-9]+(-[0-9]+)?", placeholder: "any", value: ports(own.selector.destination_ports) }),
    labelled("DSCP", { name: "dscp", type: "number", min: "0", max: "63", placeholder: "any", value: own.selector.dscp ?? "" }),
    labelled("Why", { name: "reason", maxlength: "1000" }),
    element("div", { class: "wide buttons" }, element("button", {}, "Change")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = form.elements;
    const change = {
      rate: Math.round(Number(given.rate.value) * 1e6),
      burst: Math.round(Number(given.burst.value) * 1e3),
      end: value(given.end.value),
      selector: selector(given, own.selector),
      reason: given.reason.value,
      version: own.version,
    };
    attempt(() => api("PATCH", path, change), again);
  });
  return form;
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

// The reason of an entry, and what changed, as people write it.
function why(entry) {
  const write = {
    rate, burst: (bytes) => `${bytes / 1000} kB`, start: (second) => utc(second, true),
    end: (second) => utc(second, true), selector: packets,
  };
  const changed = Object.entries(entry.detail).map(([name, values]) => {
    const [before, after] = values.map(write[name] ?? JSON.stringify);
    return `${name}: ${before} to ${after}`;
  });
  return element("span", { class: "reason" }, [entry.reason, ...changed].filter(Boolean).join("; "));
}

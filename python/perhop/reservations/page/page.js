// The page of the reservation service. It speaks to nobody but the service that it came from.

import { api, logIn, logOut, session } from "./api.js";
import { editable, element, mbps, rate, say, utc, value } from "./parts.js";
import { showReservation } from "./reservation.js";
import { Timeline } from "./timeline.js";

const $ = (selector) => document.querySelector(selector);
let network = null;
let timeline = null;

async function begin() {
  if (!(await session())) return show("log-in");
  network = await api("GET", "/network");
  $("#title").textContent = `Reservations of ${network.title}`;
  document.title = $("#title").textContent;
  $("nav").hidden = false;
  for (const name of ["source", "destination"]) {
    field(name).replaceChildren(...network.hosts.map((host) => element("option", {}, host)));
  }
  const none = element("option", { value: "" }, "none");
  field("class").replaceChildren(none, ...network.classes.map((name) => element("option", {}, name)));
  timeline ??= new Timeline($("#links"), network, openBooking);
  await route();
}

async function route() {
  if (!network) return;
  const [, page, number] = location.hash.match(/^#([a-z]+)(?:\/([0-9]+))?$/) ?? [];
  try {
    if (page === "reservations") await listReservations();
    else if (page === "reservation" && number) await showReservation($("#reservation"), number);
    else await drawTimeline();
    show(["reservations", "reservation"].includes(page) ? page : "timeline");
  } catch (error) {
    say(error.message, true);
    if (error.status === 401) leave();
  }
}

function show(id) {
  for (const each of document.querySelectorAll("main > section")) each.hidden = each.id !== id;
}

function leave() {
  network = null;
  $("nav").hidden = true;
  show("log-in");
}

// The timeline

const view = { start: Math.floor(Date.now() / 1000 / 3600) * 3600, seconds: 86400 };

async function drawTimeline() {
  const start = view.start;
  const end = start + view.seconds;
  $("#window").textContent = `${utc(start)} to ${utc(end)} UTC`;
  const free = await api("GET", `/timeline?start=${start}&end=${end}`);
  // Somebody in a hurry has moved on by now.
  if (start === view.start && end === view.start + view.seconds) timeline.draw(free, start, end);
}

function move(by) {
  view.start = Math.max(0, view.start + by * view.seconds);
  route();
}

$("#earlier").addEventListener("click", () => move(-1));
$("#later").addEventListener("click", () => move(1));
$("#range").addEventListener("change", (event) => {
  view.seconds = Number(event.target.value);
  route();
});
$("#new").addEventListener("click", () => {
  const start = Math.floor(Date.now() / 1000) + 60;
  openBooking({ start, end: start + 3600, free: 0 });
});

// Booking

const dialog = $("#book");
const form = dialog.querySelector("form");
const field = (name) => form.elements[name];
let key = "";

function openBooking({ start, end, free, link }) {
  field("start").value = editable(start);
  field("end").value = editable(end);
  if (free) field("rate").value = mbps(free);
  if (link) {
    const ends = [link.source, link.target].map((node) => network.hosts.indexOf(node));
    if (ends[0] >= 0) field("source").selectedIndex = ends[0];
    if (ends[1] >= 0) field("destination").selectedIndex = ends[1];
  }
  if (field("source").value === field("destination").value && network.hosts.length > 1) {
    field("destination").selectedIndex = (field("source").selectedIndex + 1) % network.hosts.length;
  }
  form.querySelector(".refusal").textContent = "";
  // Sent twice, it is booked once.
  key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  dialog.showModal();
  field("rate").focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const asked = {
    source: field("source").value,
    destination: field("destination").value,
    rate: Math.round(Number(field("rate").value) * 1e6),
    start: value(field("start").value),
    end: value(field("end").value),
    direction: field("direction").value,
    purpose: field("purpose").value,
    selector: {},
  };
  if (field("burst").value) asked.burst = Math.round(Number(field("burst").value) * 1e3);
  if (field("class").value) asked.class = field("class").value;
  if (field("protocol").value) asked.selector.protocol = field("protocol").value;
  if (field("dscp").value) asked.selector.dscp = Number(field("dscp").value);
  if (field("port").value) {
    const [low, high] = field("port").value.split("-").map(Number);
    asked.selector.destination_ports = [low, high ?? low];
  }
  try {
    const made = await api("POST", "/reservations", asked, { "Idempotency-Key": key });
    dialog.close();
    say(`Reservation ${made.id} is ${made.state}.`);
    location.hash = `#reservation/${made.id}`;
  } catch (error) {
    key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    form.querySelector(".refusal").textContent = error.message;
    if (error.detail?.earliest) offer(error.detail.earliest, asked.end - asked.start);
  }
});

function offer(start, seconds) {
  const button = element("button", { type: "button" }, `Take ${utc(start)}`);
  button.addEventListener("click", () => {
    field("start").value = editable(start);
    field("end").value = editable(start + seconds);
    form.querySelector(".refusal").textContent = "";
  });
  form.querySelector(".refusal").append(" ", button);
}

form.querySelector(".close").addEventListener("click", () => dialog.close());

// Reservations

async function listReservations() {
  const over = $("#over").checked;
  const states = over ? "" : "&state=held&state=planned&state=active";
  const found = await api("GET", `/reservations?limit=1000${states}`);
  if (over !== $("#over").checked) return;
  const rows = found.map((each) => {
    const cells = [
      element("a", { href: `#reservation/${each.id}` }, String(each.id)),
      each.state, each.source, each.destination, rate(each.rate), utc(each.start), utc(each.end),
      each.owner,
    ];
    return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
  });
  $("#reservations tbody").replaceChildren(...rows);
}

$("#over").addEventListener("change", route);

// Logging in and out

$("#log-in form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const own = event.target.elements;
  try {
    await logIn(own.name.value, own.password.value);
    own.password.value = "";
    say("");
    await begin();
  } catch (error) {
    say(error.message, true);
  }
});

$("#log-out").addEventListener("click", async () => {
  await logOut();
  leave();
});

addEventListener("hashchange", () => {
  say("");
  route();
});
begin();

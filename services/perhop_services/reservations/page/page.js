// The page of the reservation service. It communicates only with the service that it came from.

import { api, logIn, logOut, session } from "./api.js";
import { packets, selector } from "./packets.js";
import { editable, element, mbps, rate, say, table, utc, value } from "./parts.js";
import { showReservation } from "./reservation.js";
import { Timeline } from "./timeline.js";

const $ = (selector) => document.querySelector(selector);
let network = null;
let timeline = null;
let stays = false;

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
  timeline ??= new Timeline($("#links"), $("#readout"), network, openBooking);
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

const thisHour = () => Math.floor(Date.now() / 1000 / 3600) * 3600;
const view = { start: thisHour(), seconds: 86400 };

async function drawTimeline() {
  const start = view.start;
  const end = start + view.seconds;
  $("#window").textContent = `${utc(start)} to ${utc(end)} UTC`;
  const span = `start=${start}&end=${end}`;
  const [free, found] = await Promise.all([
    api("GET", `/timeline?${span}`),
    api("GET", `/reservations?${span}&limit=50&state=held&state=planned&state=active&state=finished`),
  ]);
  // The user has moved on in the meantime.
  if (start !== view.start || end !== view.start + view.seconds) return;
  show("timeline"); // what is hidden has no width to draw for
  timeline.draw(free, start, end);
  $("#within").replaceChildren(found.length ? listed(found) : "None.");
}

function move(by) {
  view.start = Math.max(0, view.start + by * view.seconds);
  route();
}

$("#earlier").addEventListener("click", () => move(-1));
$("#later").addEventListener("click", () => move(1));
$("#today").addEventListener("click", () => {
  view.start = thisHour();
  route();
});
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
  if (link?.hosts) [field("source").value, field("destination").value] = link.hosts;
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
    selector: selector(form.elements),
  };
  if (field("burst").value) asked.burst = Math.round(Number(field("burst").value) * 1e3);
  if (field("class").value) asked.class = field("class").value;
  try {
    const made = await api("POST", "/reservations", asked, { "Idempotency-Key": key });
    dialog.close();
    say(`Reservation ${made.id} is ${made.state}.`);
    stays = true; // on the page that comes now
    location.hash = `#reservation/${made.id}`;
  } catch (error) {
    key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    form.querySelector(".refusal").textContent = error.message;
    if (error.detail?.earliest) offer(error.detail.earliest, asked.end - asked.start);
    form.querySelector(".buttons").scrollIntoView({ block: "nearest" });
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

const MANY = 200;

async function listReservations(after = 0) {
  const over = $("#over").checked;
  const states = over ? "" : "&state=held&state=planned&state=active";
  const found = await api("GET", `/reservations?limit=${MANY}&after=${after}${states}`);
  if (over !== $("#over").checked) return;
  const place = $("#all");
  if (!after) place.replaceChildren(found.length ? listed(found) : "There are none.");
  else place.querySelector("tbody").append(...listed(found).querySelectorAll("tbody tr"));
  $("#more").hidden = found.length < MANY;
  $("#more").onclick = () => listReservations(found.at(-1).id).catch((error) => say(error.message, true));
}

function listed(found) {
  const names = ["No.", "State", "From", "To", "Packets", "Rate", "Start (UTC)", "End (UTC)", "Owner", "Purpose"];
  return table("Reservations", names, found.map((each) => [
    element("a", { href: `#reservation/${each.id}` }, String(each.id)),
    each.state, each.source, each.destination, packets(each.selector), rate(each.rate),
    utc(each.start), utc(each.end), each.owner, element("span", { class: "purpose" }, each.purpose),
  ]));
}

$("#over").addEventListener("change", () => route());

// Logging in and out

$("#log-in form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const own = event.target.elements;
  try {
    await logIn(own.name.value, own.password.value);
    own.password.value = "";
    say("");
    await begin();
    $("#title").focus();
  } catch (error) {
    say(error.message, true);
  }
});

$("#log-out").addEventListener("click", async () => {
  await logOut();
  leave();
});

addEventListener("hashchange", () => {
  if (!stays) say("");
  stays = false;
  route();
});
begin();

// What the page is put together of. Text is always text, never markup.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, given] of Object.entries(attributes)) made.setAttribute(key, given);
  made.append(...children);
  return made;
}

export function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, given] of Object.entries(attributes)) made.setAttribute(key, given);
  made.append(...children);
  return made;
}

export function table(caption, names, rows) {
  const row = (kind, cells) => element("tr", {}, ...cells.map((cell) => element(kind, {}, cell)));
  return element("div", { class: "scroll" }, element("table", {},
    element("caption", {}, caption),
    element("thead", {}, row("th", names)),
    element("tbody", {}, ...rows.map((cells) => row("td", cells)))));
}

export function say(text, wrong = false) {
  const place = document.querySelector("#said");
  place.textContent = text;
  place.classList.toggle("error", wrong);
}

export const mbps = (bps) => String(bps / 1e6);

export function rate(bps) {
  for (const [unit, size] of [["Gb/s", 1e9], ["Mb/s", 1e6], ["kb/s", 1e3]]) {
    if (bps >= size) return `${Number((bps / size).toPrecision(4))} ${unit}`;
  }
  return `${Number(bps.toPrecision(4))} b/s`;
}

const iso = (second) => new Date(second * 1000).toISOString();
export const utc = (second, seconds = false) => iso(second).slice(0, seconds ? 19 : 16).replace("T", " ");
export const editable = (second) => iso(second).slice(0, 19);
export const value = (text) => Math.floor(Date.parse(`${text}Z`) / 1000);

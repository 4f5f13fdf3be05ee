// Text for people, and HTML.

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

const RATES: [number, string][] = [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]];
const TIMES: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

export type Kind = "rate" | "time";

/** Returns the unit in which the numbers up to a largest one are shown. */
export function unitFor(most: number, kind: Kind): [number, string] {
  const units = kind === "rate" ? RATES : TIMES;
  return units.find(([size]) => most >= size) ?? units.at(-1)!;
}

export function shown(value: number | null | undefined, kind: Kind): string {
  if (value === null || value === undefined) return "no data";
  const [size, unit] = unitFor(value, kind);
  return `${Number((value / size).toPrecision(3))} ${unit}`;
}

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

/** Returns the name of a class without those that it is inside of: `web` of `bulk/web`. */
export function lastName(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}

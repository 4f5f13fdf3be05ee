// Quantities in a text, and the sliders that change them: units stay as they are written.

import { linkEnds, scan, type Path } from "./scan";
import type { Language } from "./schema";

export interface Quantity {
  from: number;
  to: number;
  /** Unique in a text: the path, and which of several in one value. */
  id: string;
  label: string;
  path: Path;
  value: number;
  /** What stands between number and end, such as " Mbps". */
  unit: string;
  kind: "rate" | "time" | "size" | "share" | "number";
  whole: boolean;
  least: number;
  most: number;
}

const UNITS: Record<string, [Quantity["kind"], number]> = {
  ps: ["time", 1e-12],
  ns: ["time", 1e-9],
  us: ["time", 1e-6],
  "µs": ["time", 1e-6],
  "μs": ["time", 1e-6],
  ms: ["time", 1e-3],
  s: ["time", 1],
  min: ["time", 60],
  h: ["time", 3600],
  "%": ["share", 0.01],
};
for (const [prefix, factor] of [["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9]] as const) {
  UNITS[`${prefix}bps`] = UNITS[`${prefix}b/s`] = ["rate", factor];
  UNITS[`${prefix}B`] = ["size", factor];
}
for (const [prefix, factor] of [["Ki", 2 ** 10], ["Mi", 2 ** 20], ["Gi", 2 ** 30]] as const) {
  UNITS[`${prefix}B`] = ["size", factor];
}

/** Units of which there are only whole numbers. */
const WHOLE = new Set(["bps", "b/s", "ps", "B"]);

/** Numbers that are names rather than quantities. */
const NAMES = new Set(["perhop", "port", "source_port", "destination_port", "ip", "dscp", "address"]);

const ONE = /^(\d+(?:\.\d+)?)( *)([A-Za-zµμ%][A-Za-z/]*)?$/;

export function quantities(text: string, language: Language): Quantity[] {
  const found: Quantity[] = [];
  const scalars = scan(text);
  const ends = linkEnds(scalars);
  for (const scalar of scalars) {
    if (scalar.key) continue;
    const parts = scalar.text.split("..");
    let from = scalar.from;
    parts.forEach((part, number) => {
      const start = from + part.search(/\S|$/);
      const match = ONE.exec(part.trim());
      from += part.length + 2;
      if (!match || parts.length > 2) return;
      const [whole, digits, space, unit = ""] = match;
      const known = UNITS[unit];
      if (unit && !known) return;
      const path = scalar.path.map(String).join(".");
      const id = parts.length > 1 ? `${path}#${number}` : path;
      const label = labelOf(scalar.path, ends);
      const named = scalar.path.filter((step) => typeof step === "string");
      const common = {
        from: start,
        to: start + whole.length,
        id,
        label: parts.length > 1 ? `${label} (${number ? "end" : "begin"})` : label,
        path: scalar.path,
        value: Number(digits),
        unit: `${space}${unit}`,
      };
      if (known) {
        const most = known[0] === "share" ? 100 : Infinity;
        found.push({ ...common, kind: known[0], whole: WHOLE.has(unit), least: 0, most });
      } else if (!NAMES.has(named.at(-1)!)) {
        const bounds = language.number(scalar.path);
        if (bounds) found.push({ ...common, kind: "number", ...bounds });
      }
    });
  }
  return found;
}

/** Names a value as people do: `edge-isp rate`, `web streams`. */
function labelOf(path: Path, ends: Map<number, string[]>): string {
  const [section, first, ...rest] = path;
  if (section === "links" && typeof first === "number") {
    return [ends.get(first)?.join("-") ?? `link ${first}`, ...rest].join(" ");
  }
  const inside = rest.filter((step) => step !== "classes");
  if (section === "flows" || section === "pings" || section === "policies") {
    return [first, ...inside].join(" ");
  }
  return path.map((step) => (typeof step === "number" ? step + 1 : step)).join(" ");
}

/** The scale of a slider, from 0 to 1, around the value that it began with. */
export interface Scale {
  value(position: number): number;
  position(value: number): number;
}

/** Times that are instants of the run rather than lengths. */
const INSTANTS = new Set(["start", "stop", "at", "during", "duration"]);

/** Returns the last second that a text names: about the end of the run. */
export function lastInstant(quantities: Quantity[]): number {
  const instants = quantities.filter((each) => each.kind === "time" && isInstant(each));
  return Math.max(1e-3, ...instants.map((each) => each.value * seconds(each)));
}

function isInstant(quantity: Quantity): boolean {
  return quantity.path.some((step) => INSTANTS.has(String(step)));
}

/** Returns the scale of a quantity in a run that ends at some second. */
export function scaleOf(quantity: Quantity, end: number): Scale {
  const { value, kind, least, most } = quantity;
  const instant = isInstant(quantity);
  if (kind === "share") return value > 0 && value < 5 ? power(3, 100) : power(1, 100);
  if (kind === "time" && (instant || value === 0)) {
    return power(instant ? 1 : 3, Math.max(end / seconds(quantity), value));
  }
  if (kind === "number" && value <= 50) {
    return between(least, Math.min(most, Math.max(2 * value, 4 * value, 10)));
  }
  if (value === 0) return power(3, kind === "rate" ? 100 : 1000);
  const low = Math.max(value / 100, quantity.whole ? 1 : 0, least);
  return logarithmic(low, Math.min(value * 100, most));
}

function power(exponent: number, most: number): Scale {
  return {
    value: (position) => most * position ** exponent,
    position: (value) => clamp((value / most) ** (1 / exponent)),
  };
}

function between(low: number, high: number): Scale {
  return {
    value: (position) => low + (high - low) * position,
    position: (value) => clamp((value - low) / (high - low)),
  };
}

function logarithmic(low: number, high: number): Scale {
  const span = Math.log(high / low) || 1;
  return {
    value: (position) => low * Math.exp(span * position),
    position: (value) => (value > 0 ? clamp(Math.log(value / low) / span) : 0),
  };
}

function clamp(share: number): number {
  return Math.min(1, Math.max(0, share));
}

/** Writes the roundest number near a value, as the quantity was written. */
export function written(quantity: Quantity, value: number): string {
  const held = Math.min(quantity.most, Math.max(quantity.least, value));
  const near = [1, 2, 3].map((digits) => Number(held.toPrecision(digits)));
  const round = near.find((each) => Math.abs(each - held) <= 0.012 * held) ?? near[2]!;
  if (quantity.whole) return `${Math.round(round)}${quantity.unit}`;
  // toString of small numbers has an exponent, which no quantity has.
  const text = round < 1e-6 ? round.toFixed(9).replace(/\.?0+$/, "") : String(round);
  return `${text}${quantity.unit}`;
}

/** The seconds of one of a time's units. */
function seconds(quantity: Quantity): number {
  return UNITS[quantity.unit.trim()]?.[1] ?? 1;
}

// Lines and stacked areas over time, as SVG that is written anew for each result.

import { element, shown, unitFor, type Kind } from "./text";

export interface Line {
  name: string;
  values: (number | null)[];
  /** The number of its colour. */
  colour: number;
  dashed?: boolean;
  /** What the legend says beside the name. */
  summary: string;
}

export interface Data {
  lines: Line[];
  step_s: number;
  end_s: number;
  kind: Kind;
  stacked?: boolean;
  /** A bound to draw, such as the rate of a link. */
  bound?: number;
}

const HEIGHT = 190;
const LEFT = 46;
const RIGHT = 14;
const TOP = 20;
const BOTTOM = 24;

export class Chart {
  readonly root: HTMLElement;
  private plot = element("div", { class: "plot" });
  private legend = element("ul", { class: "legend" });
  private heading: HTMLElement;
  private hidden = new Set<string>();
  private data: Data | null = null;
  private most = 1;
  private width = 600;
  private names = "";
  private values = new Map<string, HTMLElement>();

  constructor(
    private title: string,
    head: HTMLElement = element("h3", {}, title),
  ) {
    this.heading = head;
    this.root = element("section", { class: "chart" }, this.heading, this.plot, this.legend);
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry!.contentRect.width);
      if (width > 0 && width !== this.width) {
        this.width = width;
        this.redraw();
      }
    }).observe(this.plot);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.read(null));
  }

  /** The largest value that is drawn. */
  static most(data: Data | null): number {
    if (!data) return 0;
    if (!data.stacked) {
      return Math.max(0, ...data.lines.map((line) => Math.max(0, ...line.values.map(Number))));
    }
    const sums = stack(data.lines).at(-1)?.upper ?? [];
    return Math.max(0, data.bound ?? 0, ...sums);
  }

  draw(data: Data, most: number): void {
    this.data = data;
    this.most = most || 1;
    this.redraw();
  }

  /** Says what the legend has beside the names; lines and names are those that were drawn. */
  say(data: Data): void {
    this.data = data;
    this.label();
    this.read(null);
  }

  private label(): void {
    const said = this.data!.lines.map((line) => `${line.name} ${line.summary}`).join(", ");
    this.plot.firstElementChild?.setAttribute("aria-label", `${this.title}: ${said}`);
  }

  private redraw(): void {
    const data = this.data;
    if (!data) return;
    this.root.hidden = data.lines.length === 0;
    const lines = data.lines.filter((line) => !this.hidden.has(line.name));
    const [size, unit] = unitFor(this.most, data.kind);
    const top = niceCeiling(this.most / size) * size;
    const right = this.width - RIGHT;
    const x = (seconds: number) => LEFT + ((right - LEFT) * seconds) / data.end_s;
    const y = (value: number) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / top;
    const parts: string[] = [];
    for (const tick of ticks(top / size, 4)) {
      const at = y(tick * size).toFixed(1);
      parts.push(`<path class="grid" d="M${LEFT} ${at}H${right}"/>`);
      parts.push(`<text x="${LEFT - 6}" y="${at}" class="tick end">${tick}</text>`);
    }
    for (const tick of ticks(data.end_s, Math.max(2, Math.floor(this.width / 90)))) {
      const at = x(tick).toFixed(1);
      const said = tick ? String(tick) : "0 s";
      parts.push(`<text x="${at}" y="${HEIGHT - 6}" class="tick mid">${said}</text>`);
    }
    parts.push(`<text x="2" y="8" class="tick">${unit}</text>`);
    const middle = (cell: number) =>
      x(Math.min((cell + 0.5) * data.step_s, data.end_s)).toFixed(1);
    if (data.stacked) {
      for (const { line, lower, upper } of stack(lines)) {
        const up = upper.map((value, cell) => `${middle(cell)} ${y(value).toFixed(1)}`);
        const down = lower.map((value, cell) => `${middle(cell)} ${y(value).toFixed(1)}`);
        parts.push(
          `<path class="area c${line.colour}" d="M${up.join("L")}L${down.reverse().join("L")}Z"/>`,
        );
      }
      if (data.bound !== undefined) {
        parts.push(`<path class="bound" d="M${LEFT} ${y(data.bound).toFixed(1)}H${right}"/>`);
      }
    } else {
      for (const line of lines) {
        const dashed = line.dashed ? " dashed" : "";
        parts.push(
          `<path class="line c${line.colour}${dashed}" d="${path(line.values, middle, y)}"/>`,
        );
      }
    }
    this.plot.innerHTML =
      `<svg role="img" width="${this.width}" ` +
      `height="${HEIGHT}">${parts.join("")}<path class="cursor" d=""/></svg>`;
    this.label();
    this.drawLegend(data);
  }

  private drawLegend(data: Data): void {
    const names = JSON.stringify(data.lines.map(({ name, colour, dashed }) => [name, colour, dashed]));
    if (names !== this.names) {
      this.names = names;
      this.values.clear();
      this.legend.replaceChildren(...data.lines.map((line) => this.entry(line)));
    }
    this.read(null);
  }

  private entry(line: Line): HTMLElement {
    const value = element("span", { class: "value" });
    this.values.set(line.name, value);
    const swatch = element("span", { class: `swatch c${line.colour}` });
    if (line.dashed) swatch.classList.add("dashed");
    const pressed = String(!this.hidden.has(line.name));
    const button = element(
      "button",
      { type: "button", "aria-pressed": pressed, title: "Show or hide" },
      swatch,
      line.name,
    );
    button.addEventListener("click", () => {
      if (!this.hidden.delete(line.name)) this.hidden.add(line.name);
      button.setAttribute("aria-pressed", String(!this.hidden.has(line.name)));
      this.redraw();
    });
    return element("li", {}, button, " ", value);
  }

  private point(event: PointerEvent): void {
    const data = this.data;
    if (!data) return;
    const inside = event.clientX - this.plot.getBoundingClientRect().left - LEFT;
    const seconds = (inside / (this.width - RIGHT - LEFT)) * data.end_s;
    const cell = Math.floor(seconds / data.step_s);
    this.read(seconds >= 0 && seconds < data.end_s ? cell : null);
  }

  /** Says the values of an interval in the legend, or those of the whole run. */
  private read(cell: number | null): void {
    const data = this.data;
    if (!data) return;
    for (const line of data.lines) {
      const value = cell === null ? line.summary : shown(line.values[cell], data.kind);
      const place = this.values.get(line.name);
      if (place && place.textContent !== value) place.textContent = value;
    }
    const at = cell === null ? 0 : (cell + 0.5) * data.step_s;
    const x = LEFT + ((this.width - RIGHT - LEFT) * at) / data.end_s;
    const cursor = this.plot.querySelector(".cursor");
    cursor?.setAttribute("d", cell === null ? "" : `M${x.toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`);
  }
}

function stack(lines: Line[]): { line: Line; lower: number[]; upper: number[] }[] {
  let lower: number[] = (lines[0]?.values ?? []).map(() => 0);
  return lines.map((line) => {
    const upper = lower.map((value, cell) => value + (line.values[cell] ?? 0));
    const one = { line, lower, upper };
    lower = upper;
    return one;
  });
}

/** Returns a line with a gap where nothing is known, and a dot for a value between two gaps. */
function path(
  values: (number | null)[],
  x: (cell: number) => string,
  y: (value: number) => number,
): string {
  let found = "";
  let open = false;
  values.forEach((value, cell) => {
    if (value === null) {
      open = false;
      return;
    }
    const point = `${x(cell)} ${y(value).toFixed(1)}`;
    found += open ? `L${point}` : `M${point}h0`;
    open = true;
  });
  return found;
}

function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const nice = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.9999);
  return (nice ?? 10) * power;
}

function ticks(end: number, about: number): number[] {
  const raw = end / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((each) => each * power >= raw * 0.9999) ?? 10) * power;
  const found = [];
  for (let at = 0; at <= end * 1.0001; at += step) found.push(Number(at.toPrecision(6)));
  return found;
}

// A slider for each quantity of the text.

import { lastInstant, scaleOf, written, type Quantity, type Scale } from "./quantities";
import { byId, element } from "./text";

const STEPS = 400;

/** Sliders shown at first; others by their search. */
const MOST = 200;

interface Row {
  root: HTMLElement;
  input: HTMLInputElement;
  value: HTMLOutputElement;
  scale: Scale;
  quantity: Quantity;
}

/** What a slider stays the same for: the place, the unit and the name of its quantity. */
function keyOf({ id, unit, label }: Quantity): string {
  return `${id}${unit} ${label}`;
}

export class Sliders {
  private rows = new Map<string, Row>();
  private list = byId("sliders");
  private filter = byId<HTMLInputElement>("filter");
  private order = "";
  private chosen: string | null = null;

  constructor(
    private write: (quantity: Quantity, text: string, event: Event) => void,
    private about: (quantity: Quantity) => string,
  ) {
    this.filter.addEventListener("input", () => this.sift());
  }

  /** Follows the quantities of a text. */
  follow(quantities: Quantity[]): void {
    const order = quantities.map(keyOf).join(" ");
    if (order !== this.order) this.build(quantities, order);
    for (const quantity of quantities) {
      const row = this.rows.get(keyOf(quantity));
      if (!row) continue;
      row.quantity = quantity;
      this.say(row);
      // A slider that is being moved is finer than the number that it writes.
      if (document.activeElement !== row.input) {
        row.input.value = String(Math.round(STEPS * row.scale.position(quantity.value)));
      }
    }
  }

  /** Brings the slider of a quantity into sight, such as one that the cursor is in. */
  choose(quantity: Quantity | null): void {
    const id = quantity && keyOf(quantity);
    if (id === this.chosen) return;
    this.rows.get(this.chosen ?? "")?.root.classList.remove("chosen");
    this.chosen = id;
    const row = this.rows.get(id ?? "");
    if (!row) return;
    row.root.classList.add("chosen");
    this.sift();
    this.list.scrollTop = row.root.offsetTop - this.list.offsetTop - this.list.clientHeight / 3;
  }

  /** Forgets the scales of sliders, before another text. */
  forget(): void {
    this.rows.clear();
    this.order = "";
  }

  /** Moves the keyboard to the chosen slider. */
  focus(): boolean {
    const row = this.rows.get(this.chosen ?? "");
    row?.input.focus();
    return Boolean(row);
  }

  private build(quantities: Quantity[], order: string): void {
    this.order = order;
    const before = this.rows;
    const end = lastInstant(quantities);
    this.rows = new Map();
    for (const quantity of quantities) {
      const id = keyOf(quantity);
      this.rows.set(id, before.get(id) ?? this.row(quantity, end));
    }
    this.list.replaceChildren(...[...this.rows.values()].map(({ root }) => root));
    this.sift();
  }

  private row(quantity: Quantity, end: number): Row {
    const input = element("input", { type: "range", min: "0", max: String(STEPS), step: "1" });
    const value = element("output");
    const name = element("span", { class: "name", title: this.said(quantity) }, quantity.label);
    const root = element("li", {}, element("label", {}, name, input), value);
    const row: Row = { root, input, value, scale: scaleOf(quantity, end), quantity };
    input.addEventListener("input", (event) => {
      const text = written(row.quantity, row.scale.value(Number(input.value) / STEPS));
      this.write(row.quantity, text, event);
    });
    return row;
  }

  private said(quantity: Quantity): string {
    return `${quantity.id}: ${this.about(quantity)}`;
  }

  private say(row: Row): void {
    const text = `${row.quantity.value}${row.quantity.unit}`;
    if (row.value.textContent === text) return;
    row.value.textContent = text;
    row.input.setAttribute("aria-valuetext", text);
  }

  private sift(): void {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [id, { root, quantity }] of this.rows) {
      const label = `${quantity.label} ${quantity.id}`.toLowerCase();
      const fits = words.every((word) => label.includes(word));
      root.hidden = id !== this.chosen && (!fits || ++shown > MOST);
    }
    byId("none").hidden = this.rows.size > 0;
  }
}

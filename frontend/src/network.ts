// The network: nodes, both directions of links with their use, classes at the ends.

import type { Lines, Network } from "./api";
import { element, escape, lastName } from "./text";

const ACROSS = 220;
const LEAST_ACROSS = 96;
const ROOMY = 180;
const DOWN = 96;
const MARGIN_X = 46;
const MARGIN_Y = 62;
const APART = 4;
const FROM_NODE = 46;

/** Links with labels, at most: more would cover each other. */
const LABELLED = 24;

export class Drawing {
  readonly root = element("div", { class: "network", tabindex: "0", role: "group" });

  private width = 0;
  private again: (() => void) | null = null;

  constructor() {
    this.root.setAttribute("aria-label", "The network");
    new ResizeObserver(([entry]) => {
      this.width = entry!.contentRect.width;
      this.again?.();
    }).observe(this.root);
  }

  /** Draws the network with what its links sent, and their use from 0 to 1. */
  draw(
    network: Network,
    sent: Lines["links"],
    use: Record<string, number | null>,
    colours: Record<string, number>,
  ): void {
    this.root.classList.toggle("many", Boolean(network.size));
    if (network.omitted || network.size) {
      this.again = null;
      if (network.size) this.dots(network, network.size, use);
      else this.root.textContent = `The network of ${network.omitted} nodes is too large to be drawn.`;
      return;
    }
    this.again = () => this.draw(network, sent, use, colours);
    const columns = network.nodes.map((node) => node.column);
    const rows = network.nodes.map((node) => node.row);
    const top = Math.min(...rows);
    const last = Math.max(1, ...columns);
    const room = (this.width - 2 * MARGIN_X) / last;
    const across = Math.min(ACROSS, Math.max(LEAST_ACROSS, room));
    const width = 2 * MARGIN_X + across * Math.max(...columns);
    const height = 2 * MARGIN_Y + DOWN * (Math.max(...rows) - top);
    const at = new Map(
      network.nodes.map((node) => [
        node.name,
        { x: MARGIN_X + across * node.column, y: MARGIN_Y + DOWN * (node.row - top) },
      ]),
    );
    const links = new Map(sent.map((link) => [link.name, link]));
    const used = (name: string) => use[name] ?? 0;
    const parallel = new Map<string, number>();
    const wires: string[] = [];
    const parts: string[] = [];
    for (const [order, link] of network.links.entries()) {
      const [one, two] = [at.get(link.ends[0])!, at.get(link.ends[1])!];
      const pair = [...link.ends].sort().join(" ");
      const number = parallel.get(pair) ?? 0;
      parallel.set(pair, number + 1);
      const length = Math.hypot(two.x - one.x, two.y - one.y) || 1;
      const normal = { x: -(two.y - one.y) / length, y: (two.x - one.x) / length };
      const beside = 22 * (number % 2 ? (number + 1) / 2 : -number / 2);
      link.directions.forEach((name, direction) => {
        const by = beside + (direction ? APART : -APART);
        const [a, b] = [one, two].map((end) => `${end.x + normal.x * by} ${end.y + normal.y * by}`);
        const title = `${name}: ${percent(use[name])} used`;
        wires.push(`<path class="wire use${level(used(name))}" d="M${a}L${b}"><title>${escape(title)}</title></path>`);
      });
      if (network.links.length <= LABELLED) {
        const middle = { x: (one.x + two.x) / 2, y: (one.y + two.y) / 2 + beside };
        const uses = link.directions.map((name) => use[name]);
        const [there, back] = (one.x <= two.x ? uses : uses.toReversed()).map(percent);
        const said = sent.length ? `→ ${there}  ← ${back}` : "";
        // Above the names of policies, if there is no room beside them.
        const named = link.ends.map((end) => Boolean(link.policies[end]));
        const flat = Math.abs(one.y - two.y) < 1;
        const tight = across < ROOMY && named.includes(true);
        const crowded = tight || wide(link.label) > across - 38;
        // Words that are wider than their link are at two heights in turn.
        const above = !flat ? 7 : !crowded ? 16 : order % 2 ? 31 : 44;
        const below = !flat ? 8 : wide(said) > across - 44 ? 46 : 22;
        const towards = named[0] === named[1] ? 0 : named[0] === one.x < two.x ? 14 : -14;
        parts.push(label(middle.x + towards, middle.y - above, link.label, "about"));
        parts.push(label(middle.x, middle.y + below, said, "use"));
      }
      link.ends.forEach((end, direction) => {
        const policy = link.policies[end];
        if (!policy) return;
        const [near, far] = direction ? [two, one] : [one, two];
        const x = near.x + ((far.x - near.x) / length) * FROM_NODE;
        const y = near.y + ((far.y - near.y) / length) * FROM_NODE + beside;
        const classes = links.get(link.directions[direction]!)?.classes;
        parts.push(queue(x, y, policy, classes, colours));
      });
    }
    for (const node of network.nodes) {
      const { x, y } = at.get(node.name)!;
      const shape =
        node.kind === "host"
          ? `<rect x="${x - 17}" y="${y - 13}" width="34" height="26" rx="4"/>`
          : `<circle cx="${x}" cy="${y}" r="16"/>`;
      const below = y + 32;
      parts.push(`<g class="node ${escape(node.kind)}">${shape}${label(x, below, node.name, "")}</g>`);
    }
    const said = network.links
      .map((link) => `${link.ends.join(" to ")}, ${link.label}`)
      .join("; ");
    this.write(said, width, height, [...wires, ...parts]);
  }

  /** Draws a network of many nodes: dots, whose names the pointer shows. */
  private dots(network: Network, [width, height]: [number, number], use: Record<string, number | null>): void {
    const at = new Map(network.nodes.map((node) => [node.name, `${node.column.toFixed(1)} ${node.row.toFixed(1)}`]));
    const wires = network.links.map((link) => {
      const used = link.directions.map((name) => use[name] ?? 0);
      const said = link.directions.map((name) => `${name}: ${percent(use[name])} used`);
      const [one, two] = link.ends.map((end) => at.get(end));
      const title = escape([...said, link.label].join("\n"));
      return `<path class="wire use${level(Math.max(...used))}" d="M${one}L${two}"><title>${title}</title></path>`;
    });
    const nodes = network.nodes.map(({ name, kind }) => {
      const shape = `<path class="dot" d="M${at.get(name)}h0"><title>${escape(name)}</title></path>`;
      return `<g class="node ${escape(kind)}">${shape}</g>`;
    });
    const said = `${network.nodes.length} nodes and ${network.links.length} links`;
    this.write(said, Math.ceil(width), Math.ceil(height), [...wires, ...nodes]);
  }

  private write(said: string, width: number, height: number, parts: string[]): void {
    this.root.innerHTML =
      `<svg role="img" aria-label="${escape(`Network: ${said}`)}" width="${width}" ` +
      `height="${height}" viewBox="0 0 ${width} ${height}">${parts.join("")}</svg>`;
  }
}

/** Returns a share of the time in words. */
function percent(share: number | null | undefined): string {
  return share === null ? "unknown" : `${Math.round((share ?? 0) * 100)}%`;
}

/** Returns the number of the style of a use. */
function level(use: number): number {
  return Math.min(4, Math.ceil(use * 4));
}

/** Returns about how wide words are. */
function wide(words: string): number {
  return 6.4 * words.length;
}

function label(x: number, y: number, text: string, kind: string): string {
  return `<text x="${x}" y="${y}" class="mid ${kind}">${escape(text)}</text>`;
}

/** Draws the classes of an end as boxes as wide as their shares of what it sent. */
function queue(
  x: number,
  y: number,
  policy: { policy: string; classes: string[] },
  sent: { name: string; sent_bytes: number }[] | undefined,
  colours: Record<string, number>,
): string {
  const total = sent?.reduce((sum, each) => sum + each.sent_bytes, 0) ?? 0;
  const boxes = (total ? sent! : policy.classes.map((name) => ({ name, sent_bytes: 1 }))) as {
    name: string;
    sent_bytes: number;
  }[];
  const whole = total || boxes.length;
  const width = 44;
  let left = x - width / 2;
  const parts = boxes.map(({ name, sent_bytes }) => {
    const wide = (width * sent_bytes) / whole;
    const share = total ? `: ${Math.round((100 * sent_bytes) / total)}% of the bytes` : "";
    const box =
      `<rect class="class c${colours[lastName(name)] ?? 0}" x="${left.toFixed(1)}" y="${y - 8}" ` +
      `width="${wide.toFixed(1)}" height="16"><title>${escape(name + share)}</title></rect>`;
    left += wide;
    return box;
  });
  const frame = `<rect class="frame" x="${x - width / 2}" y="${y - 8}" width="${width}" height="16"/>`;
  return `<g>${parts.join("")}${frame}${label(x, y - 16, policy.policy, "about")}</g>`;
}

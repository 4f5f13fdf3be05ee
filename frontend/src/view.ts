// The results of a variant: verdicts, charts, warnings.

import type { Answer, Lines, Network, Result } from "./api";
import { Chart, type Data } from "./chart";
import { Drawing } from "./network";
import { element, lastName, shown } from "./text";

export class View {
  readonly root: HTMLElement;
  readonly heading = element("h2");
  private status = element("p", { class: "status", role: "status" });
  private took = element("p", { class: "took" });
  private bar = element("progress", { max: "1", "aria-label": "Progress of the run" });
  private stop = element("button", { type: "button" }, "Stop");
  private running = element("div", { class: "running" }, this.bar, " ", this.stop);
  private verdicts = element("ul", { class: "verdicts", "aria-label": "Expectations" });
  private warnings = element("ul", { class: "warnings", "aria-label": "Warnings" });
  private network = new Drawing();
  private links = element("select");
  private chosen = "";
  private throughput = new Chart("Throughput of flows");
  private classes: Chart;
  private delays = new Chart("Round-trip times");
  private drawn: { lines: Lines; network: Network } | null = null;
  private result: Result | null = null;
  private answer: Answer = {};

  constructor(
    private changed: () => void,
    stop: () => void,
  ) {
    this.running.hidden = true;
    this.stop.addEventListener("click", stop);
    const head = element("h3", {}, "Classes of ");
    const named = element("label", { class: "within" }, "link ", this.links);
    const row = element("div", { class: "row" }, head, named);
    this.classes = new Chart("Throughput of classes", row);
    this.links.addEventListener("change", () => {
      this.chosen = this.links.value;
      this.changed();
    });
    this.root = element(
      "section",
      { class: "view" },
      this.heading,
      element("div", { class: "row" }, this.status, this.took),
      this.running,
      this.verdicts,
      this.network.root,
      this.throughput.root,
      this.classes.root,
      this.delays.root,
      this.warnings,
    );
  }

  /** The data of the three charts of a result. */
  data(): { throughput: Data; classes: Data | null; delays: Data } | null {
    if (!this.drawn) return null;
    const { lines: result } = this.drawn;
    const said = this.result;
    const colour = (name: string) => result.colours[lastName(name)] ?? 0;
    const grid = { step_s: result.step_s, end_s: result.duration_s };
    const throughput: Data = {
      ...grid,
      kind: "rate",
      lines: result.flows.map((flow) => ({
        name: flow.name,
        values: flow.rate_bps,
        colour: colour(flow.name),
        summary: said?.flows[flow.name] ?? "",
      })),
    };
    const link = result.links.find(({ name }) => name === this.link(result));
    const classes: Data | null = link
      ? {
          ...grid,
          kind: "rate",
          stacked: true,
          bound: link.rate_bps,
          lines: link.classes.map(({ name, rate_bps, sent_bytes, dropped }) => ({
            name,
            values: rate_bps,
            colour: colour(name),
            summary: share(sent_bytes, link.classes) + (dropped ? `, ${dropped} dropped` : ""),
          })),
        }
      : null;
    const pings = result.pings.map(({ name, rtt_s }) => ({
      name,
      values: rtt_s,
      colour: colour(name),
      summary: said?.pings[name] ?? "",
    }));
    const flows = result.flows.map(({ name, rtt_s }) => ({
      name: pings.some((ping) => ping.name === name) ? `${name} (flow)` : name,
      values: rtt_s,
      colour: colour(name),
      dashed: true,
      summary: `smoothed, up to ${shown(most(rtt_s), "time")}`,
    }));
    const measured = [...pings, ...flows].filter(({ values }) => values.some((v) => v !== null));
    return { throughput, classes, delays: { ...grid, kind: "time", lines: measured } };
  }

  /** Takes the lines of a run, and its network; what is said of it comes later. */
  lines({ lines, network }: Answer): void {
    this.drawn = { lines: lines!, network: network! };
  }

  /** Draws the charts; they go up to the largest values of all variants. */
  draw(tops: { throughput: number; classes: number; delays: number }): void {
    const data = this.data();
    if (!data) return;
    this.choose(this.drawn!.lines);
    this.throughput.draw(data.throughput, tops.throughput);
    this.classes.root.hidden = !data.classes;
    if (data.classes) this.classes.draw(data.classes, tops.classes);
    this.delays.draw(data.delays, tops.delays);
  }

  /** Says an answer: verdicts, means, the use of links. What was said stays beside errors. */
  say(answer: Answer): void {
    const { result, network, ended, error, problems } = answer;
    this.answer = answer;
    this.root.classList.toggle("stale", Boolean(problems?.length || error));
    this.tell(this.sentence());
    if (network) this.network.draw(network, [], {}, {});
    if (!result) return;
    this.result = result;
    const { lines } = this.drawn!;
    this.took.textContent = `${lines.duration_s} s in ${Math.round(result.wall_s * 1000)} ms`;
    this.verdicts.replaceChildren(...result.verdicts.map(verdict));
    this.warnings.replaceChildren(
      ...result.warnings.map(({ path, message }) =>
        element("li", {}, path ? element("code", {}, path) : "", path ? ": " : "", message),
      ),
    );
    this.root.classList.toggle("ended", Boolean(ended));
    this.choose(lines);
    const data = this.data()!;
    this.throughput.say(data.throughput);
    if (data.classes) this.classes.say(data.classes);
    this.delays.say(data.delays);
    this.network.draw(this.drawn!.network, lines.links, result.utilisation, lines.colours);
  }

  /** Shows the progress of a long run, from 0 to 1; null when it is over. */
  progress(share: number | null): void {
    this.running.hidden = share === null;
    if (share) this.bar.value = share;
    else this.bar.removeAttribute("value");
    // What is said of an earlier text does not hold of the one that runs.
    const { error, problems, ended } = this.answer;
    if (share === 0 && (error || problems?.length || ended)) {
      this.root.classList.remove("stale", "ended");
      this.tell("Running …");
    }
  }

  private sentence(): string {
    const { result, ended, error, problems } = this.answer;
    if (error) return error;
    if (problems?.length) {
      const number = problems.length + (this.answer.more ?? 0);
      const { line, path, message } = problems[0]!;
      const said = path || !/^is /.test(message) ? message : `the text ${message}`;
      return `${number} ${number === 1 ? "error" : "errors"} in the text; line ${line}: ${said}`;
    }
    if (!result) return "";
    const judged = result.verdicts.length;
    const failed = result.verdicts.filter(({ ok }) => !ok).length;
    const held = failed
      ? `${failed} of ${judged} expectations ${failed === 1 ? "does" : "do"} not hold`
      : judged
        ? `${judged === 1 ? "The expectation holds" : `All ${judged} expectations hold`}`
        : "No expectations";
    return ended ? `${held}; ${ended}` : held;
  }

  private tell(text: string): void {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  /**
   * Returns the link whose classes are drawn: the chosen one, or the busiest with the most classes.
   * It depends on nothing but the lines, so that what is said later is said of the link that was drawn.
   */
  private link(result: Lines): string {
    if (result.links.some(({ name }) => name === this.chosen)) return this.chosen;
    const used = ({ classes, rate_bps }: Lines["links"][number]) =>
      classes.reduce((sum, { sent_bytes }) => sum + sent_bytes, 0) / rate_bps;
    const ranked = result.links.toSorted(
      (one, two) => two.classes.length - one.classes.length || used(two) - used(one),
    );
    return ranked[0]?.name ?? "";
  }

  private choose(result: Lines): void {
    const names = result.links.map(({ name }) => name);
    if (names.join(" ") !== [...this.links.options].map(({ value }) => value).join(" ")) {
      this.links.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    }
    this.links.value = this.link(result);
  }
}

function verdict({ text, ok, measured }: Result["verdicts"][number]): HTMLElement {
  const [kind, sign, word] =
    ok === null ? ["missed", "–", "not reached"] : ok ? ["holds", "✓", "holds"] : ["fails", "✗", "fails"];
  return element(
    "li",
    { class: kind },
    element("span", { class: "sign", "aria-hidden": "true" }, sign),
    element("strong", {}, word),
    ` ${text}: `,
    element("span", { class: "value" }, measured),
  );
}

function share(bytes: number, all: { sent_bytes: number }[]): string {
  const total = all.reduce((sum, each) => sum + each.sent_bytes, 0);
  return total ? `${Math.round((1000 * bytes) / total) / 10}%` : "nothing sent";
}

function most(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length ? Math.max(...known) : null;
}

// The studio: texts at the left, what they do at the right.

import { Refused, get, report, run, saveFile, stop, type Answer, type Start } from "./api";
import { Chart } from "./chart";
import { Editor } from "./editor";
import type { Quantity } from "./quantities";
import { Language } from "./schema";
import { Sliders } from "./sliders";
import { byId, element } from "./text";
import { View } from "./view";

/** A run that takes longer than this gives way to a later one; a shorter one is drawn first. */
const PATIENCE_MS = 250;

/** The time without a key after which a text runs that is being typed. */
const TYPING_MS = 150;

const GONE = "The server does not answer: was `perhop studio` ended?";

class Variant {
  readonly editor: Editor;
  readonly view: View;
  readonly tab: HTMLButtonElement;
  private begun = 0;
  private again = false;
  private newest = 0;
  private shown = 0;
  private timer = 0;
  private since: number | null = null;

  constructor(
    readonly name: string,
    text: string,
    private studio: Studio,
  ) {
    const nonce = document.querySelector<HTMLMetaElement>("meta[name=nonce]")!.content;
    this.editor = new Editor(
      studio.language,
      `Scenario, variant ${name}`,
      text,
      nonce,
      () => studio.changed(this),
      (quantity) => studio.choose(this, quantity),
    );
    this.view = new View(
      () => studio.draw(),
      () => void stop(name),
    );
    this.tab = element("button", { type: "button", role: "tab", id: `tab-${name}` }, name);
    this.tab.addEventListener("click", () => studio.select(this));
  }

  /** Runs the text soon. */
  schedule(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.start(this.editor.text), TYPING_MS);
  }

  /** Writes a quantity anew for the event of a slider, and runs the text at once. */
  slide(quantity: Quantity, written: string, event: Event): void {
    const text = this.editor.with(quantity, written);
    if (text === this.editor.text) return;
    clearTimeout(this.timer);
    this.since ??= event.timeStamp;
    // The server runs the text while the editor shows it.
    this.start(text);
    this.editor.write(quantity, written);
  }

  private start(text: string): void {
    if (this.begun && performance.now() - this.begun < PATIENCE_MS) {
      this.again = true;
      return;
    }
    void this.run(text);
  }

  private async run(text: string): Promise<void> {
    const mine = ++this.newest;
    const since = this.since;
    this.since = null;
    this.again = false;
    this.begun = performance.now();
    const late = window.setTimeout(() => {
      if (this.again) void this.run(this.editor.text);
      else if (mine === this.newest) this.view.progress(0);
    }, PATIENCE_MS);
    // The next run begins while this one is drawn.
    const done = () => {
      clearTimeout(late);
      if (mine !== this.newest || !this.begun) return;
      this.begun = 0;
      this.view.progress(null);
      if (this.again) void this.run(this.editor.text);
    };
    let answer: Answer;
    try {
      answer = await run(
        this.name,
        text,
        this.studio.seed,
        ({ now_s, end_s }) => {
          if (mine === this.newest) this.view.progress(now_s / end_s);
        },
        (lines) => {
          done();
          if (mine < this.shown) return;
          this.shown = mine;
          this.view.lines(lines);
          this.studio.draw();
          if (since !== null) drawn("slider to chart", since);
        },
      );
    } catch (error) {
      answer = { error: error instanceof Refused ? error.message : GONE };
    }
    done();
    // A later run may have been drawn meanwhile.
    if (mine < this.shown || answer.superseded) return;
    this.shown = mine;
    this.take(answer);
    if (since !== null) drawn("slider to verdicts", since);
  }

  private take(answer: Answer): void {
    const { problems = [] } = answer;
    this.view.say(answer);
    if (problems.length || this.erroneous) this.editor.show(problems);
    this.erroneous = problems.length > 0;
  }

  private erroneous = false;
}

/** Notes the time from an event to the frame that shows its result. */
function drawn(name: string, since: number): void {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      performance.measure(name, { start: since, end: performance.now() });
    };
    channel.port2.postMessage(null);
  });
}

class Studio {
  readonly language: Language;
  private variants: Variant[] = [];
  private current!: Variant;
  private sliders: Sliders;
  private sliding = false;
  private filename: string;
  private file: string | null;
  private version: string;
  /** Texts that are elsewhere, too. */
  private kept = new Set<string>();

  constructor(start: Start) {
    this.language = new Language(start.schema, start.targets);
    this.filename = start.name;
    this.sliders = new Sliders(
      (quantity, text, event) => {
        this.sliding = true;
        this.current.slide(quantity, text, event);
        this.sliding = false;
      },
      (quantity) => this.language.about(quantity.path),
    );
    this.menu(start);
    this.kept.add(start.text);
    this.add("A", start.text);
    byId("compare").addEventListener("click", () => this.compare());
    this.file = start.file;
    this.version = start.version;
    const saving = byId("save");
    saving.hidden = start.file === null;
    saving.textContent = `Save ${start.file}`;
    saving.addEventListener("click", () => void this.save());
    byId("download").addEventListener("click", () => this.download());
    byId("report").addEventListener("click", () => void this.report());
    byId("open").addEventListener("click", () => byId("file").click());
    byId("file").addEventListener("change", () => void this.open());
    byId("seed").addEventListener("change", () => {
      byId<HTMLInputElement>("seed").value = String(this.seed);
      for (const variant of this.variants) variant.schedule();
    });
    window.addEventListener("beforeunload", (event) => {
      if (this.variants.some(({ editor }) => !this.kept.has(editor.text))) event.preventDefault();
    });
    byId("tabs").addEventListener("keydown", (event) => this.arrow(event));
    document.addEventListener("keydown", (event) => {
      if (event.altKey && event.key === "s" && this.sliders.focus()) event.preventDefault();
      if ((event.ctrlKey || event.metaKey) && event.key === "s") {
        event.preventDefault();
        void this.save();
      }
    });
  }

  get seed(): number {
    const seed = Math.trunc(Number(byId<HTMLInputElement>("seed").value)) || 0;
    return Math.min(Math.max(0, seed), Number.MAX_SAFE_INTEGER);
  }

  changed(variant: Variant): void {
    if (!this.sliding) variant.schedule();
    if (variant === this.current) this.sliders.follow(variant.editor.quantities);
  }

  choose(variant: Variant, quantity: Quantity | null): void {
    if (variant === this.current && !this.sliding) this.sliders.choose(quantity);
  }

  select(variant: Variant): void {
    this.current = variant;
    for (const each of this.variants) {
      const chosen = each === variant;
      each.tab.setAttribute("aria-selected", String(chosen));
      each.tab.tabIndex = chosen ? 0 : -1;
      each.editor.view.dom.hidden = !chosen;
    }
    byId("texts").setAttribute("aria-labelledby", variant.tab.id);
    variant.editor.view.requestMeasure();
    this.sliders.follow(variant.editor.quantities);
  }

  /** Draws all variants to the same scales. */
  draw(): void {
    const data = this.variants.map(({ view }) => view.data());
    const top = (name: "throughput" | "classes" | "delays") =>
      Math.max(0, ...data.map((each) => Chart.most(each?.[name] ?? null)));
    const tops = { throughput: top("throughput"), classes: top("classes"), delays: top("delays") };
    for (const { view } of this.variants) view.draw(tops);
  }

  private add(name: string, text: string): void {
    const variant = new Variant(name, text, this);
    this.variants.push(variant);
    byId("tabs").append(variant.tab);
    byId("texts").append(variant.editor.view.dom);
    byId("views").append(variant.view.root);
    this.arranged();
    this.select(variant);
    variant.schedule();
  }

  private compare(): void {
    const [one, two] = this.variants;
    if (!two) {
      this.add("B", one!.editor.text);
      return;
    }
    this.variants.pop();
    for (const node of [two.tab, two.view.root]) node.remove();
    two.editor.view.destroy();
    void stop(two.name);
    this.arranged();
    this.select(one!);
    this.draw();
  }

  private arranged(): void {
    const several = this.variants.length > 1;
    byId("views").classList.toggle("several", several);
    byId("compare").textContent = several ? "Close B" : "Compare";
    for (const { name, view } of this.variants) {
      view.heading.textContent = several ? `Variant ${name}` : "Results";
    }
  }

  private arrow(event: KeyboardEvent): void {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = this.variants.find((each) => each !== this.current);
    if (!other) return;
    this.select(other);
    other.tab.focus();
  }

  private menu(start: Start): void {
    const menu = byId<HTMLSelectElement>("from");
    const templates = element("optgroup", { label: "Templates" });
    for (const [name, about] of Object.entries(start.templates)) {
      templates.append(element("option", { value: name, title: about }, name));
    }
    const gallery = element("optgroup", { label: "Published experiments" });
    for (const name of start.gallery) gallery.append(element("option", { value: name }, name));
    menu.append(templates, gallery);
    menu.addEventListener("change", () => {
      if (menu.value) void this.load(menu.value);
      menu.value = "";
    });
  }

  private async load(name: string): Promise<void> {
    try {
      const found = await get<{ name: string; text: string }>(`text/${name}`);
      this.replace(found.name, found.text);
    } catch {
      this.say(GONE);
    }
  }

  private async open(): Promise<void> {
    const input = byId<HTMLInputElement>("file");
    const file = input.files?.[0];
    if (file && file.size <= 2 ** 20) this.replace(file.name, await file.text());
    else if (file) this.say(`${file.name} is larger than 1 MiB, the largest scenario`);
    input.value = "";
  }

  private replace(name: string, text: string): void {
    this.filename = name;
    this.sliders.forget();
    this.current.editor.text = text;
    this.kept.add(this.current.editor.text);
    this.say(`${name}: undo brings the text before back`);
  }

  /** Writes the text to the file that the page began with; without one, it is downloaded. */
  private async save(): Promise<void> {
    if (this.file === null) return this.download();
    const { text } = this.current.editor;
    try {
      this.version = await saveFile(text, this.version);
      this.kept.add(text);
      this.say(`${this.file} is saved`);
    } catch (error) {
      this.say(reason(error));
    }
  }

  private download(): void {
    const stem = this.filename.replace(/\.ya?ml$/, "");
    const which = this.variants.length > 1 ? `-${this.current.name.toLowerCase()}` : "";
    save(`${stem}${which}.yaml`, "application/yaml", this.current.editor.text);
    this.kept.add(this.current.editor.text);
  }

  private async report(): Promise<void> {
    this.say("Writing the report …");
    try {
      const page = await report(this.current.editor.text, this.seed);
      save(`${this.filename.replace(/\.ya?ml$/, "")}.html`, "text/html", page);
      this.say("The report is saved");
    } catch (error) {
      this.say(reason(error));
    }
  }

  private say(text: string): void {
    byId("said").textContent = text;
  }
}

/** Returns what an error says; requests end with a TypeError if there is no server. */
function reason(error: unknown): string {
  return error instanceof Error && !(error instanceof TypeError) ? error.message : GONE;
}

function save(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

void get<Start>("start").then((start) => new Studio(start));

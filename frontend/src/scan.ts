// Scalars of a scenario with their paths, and the place of the cursor among them.
//
// The text is incomplete while one types, so this reads lines by their indentation, and what is
// between brackets character by character. Whether a text is right, perhop says.

export type Path = (string | number)[];

export interface Scalar {
  from: number;
  to: number;
  text: string;
  path: Path;
  key: boolean;
}

export interface Place {
  /** The path of the mapping or list around the cursor, or of the value at it. */
  path: Path;
  /** Whether a key is due at the cursor, a value, or either. */
  due: "key" | "value" | "either";
  /** Where the word at the cursor begins. */
  from: number;
}

interface Frame {
  kind: "map" | "list" | "{" | "[";
  indent: number;
  key: string | null;
  index: number;
}

const KEY = /^("[^"]*"|'[^']*'|[^\s#:,[\]{}"'|>-][^:#,[\]{}]*?)\s*:(?=\s|$)/;

export function scan(text: string): Scalar[] {
  const scanner = new Scanner(text);
  scanner.run();
  return scanner.found;
}

export function placeAt(text: string, position: number): Place {
  const scanner = new Scanner(text.slice(0, position));
  scanner.run();
  return scanner.place();
}

/** Returns the ends of links by their positions. */
export function linkEnds(scalars: Scalar[]): Map<number, string[]> {
  const ends = new Map<number, string[]>();
  for (const { path, text, key } of scalars) {
    if (!key && path[0] === "links" && path[2] === "ends" && path.length === 4) {
      const link = path[1] as number;
      ends.set(link, [...(ends.get(link) ?? []), text]);
    }
  }
  return ends;
}

class Scanner {
  found: Scalar[] = [];
  private frames: Frame[] = [];
  private literal = -1; // the indentation of the key of a block of text
  private last: "key" | "value" | "none" = "none"; // what the end of the text is part of
  private word = 0;

  constructor(private text: string) {}

  run(): void {
    let at = 0;
    while (at <= this.text.length) {
      const end = this.lineEnd(at);
      at = this.line(at, end) + 1;
    }
  }

  place(): Place {
    const top = this.frames.at(-1);
    const flow = top?.kind === "{" || top?.kind === "[";
    const start = this.text.lastIndexOf("\n") + 1;
    const line = this.text.slice(start);
    if (flow) {
      if (top.kind === "[") return { path: this.path(), due: "value", from: this.word };
      if (this.last === "value") return { path: this.path(), due: "value", from: this.word };
      return { path: this.outer(), due: "key", from: this.word };
    }
    const content = line.replace(/^(\s*- )*\s*/, "");
    const from = this.text.length - content.length;
    if (KEY.test(content)) {
      return { path: this.path(), due: "value", from: this.word };
    }
    this.settle(from - start, line.trimStart().startsWith("- ") ? 0 : from - start);
    const map = this.frames.at(-1);
    const same = map?.kind === "map" && map.indent === from - start;
    return { path: same ? this.outer() : this.path(), due: same ? "key" : "either", from };
  }

  private path(): Path {
    return this.frames
      .filter((frame) => frame.key !== null || frame.kind === "list" || frame.kind === "[")
      .map((frame) => (frame.kind === "list" || frame.kind === "[" ? frame.index : frame.key!));
  }

  private outer(): Path {
    const top = this.frames.at(-1);
    const path = this.path();
    return top && top.key !== null && (top.kind === "map" || top.kind === "{")
      ? path.slice(0, -1)
      : path;
  }

  private lineEnd(at: number): number {
    const end = this.text.indexOf("\n", at);
    return end < 0 ? this.text.length : end;
  }

  /** Forgets the frames that a line of this indentation ends. */
  private settle(indent: number, first: number): void {
    for (;;) {
      const top = this.frames.at(-1);
      if (!top || top.kind === "{" || top.kind === "[") return;
      const dash = top.kind === "list" && top.indent === indent && first !== indent;
      if (top.indent > indent || (top.kind === "list" && top.indent === indent && !dash)) {
        this.frames.pop();
      } else return;
    }
  }

  /** Reads a line in block style, and what it opens; returns the end of what was read. */
  private line(at: number, end: number): number {
    let place = at;
    while (place < end && this.text[place] === " ") place++;
    const rest = this.text.slice(place, end);
    if (!rest.trim() || rest.startsWith("#")) return end;
    let indent = place - at;
    if (this.literal >= 0) {
      if (indent > this.literal) return end;
      this.literal = -1;
    }
    const dash = /^-(\s|$)/;
    for (let item = dash.exec(rest); item; item = dash.exec(this.text.slice(place, end))) {
      while (this.frames.length && this.frames.at(-1)!.indent > indent) this.frames.pop();
      const top = this.frames.at(-1);
      // A map on the same column is that of an item before, or the one whose key has this list.
      const below = this.frames.at(-2);
      if (top?.kind === "map" && top.indent === indent && below?.kind === "list" && below.indent === indent) {
        this.frames.pop();
      }
      const list = this.frames.at(-1);
      if (list?.kind === "list" && list.indent === indent) list.index++;
      else this.frames.push({ kind: "list", indent, key: null, index: 0 });
      place++;
      while (place < end && this.text[place] === " ") place++;
      indent = place - at;
      if (place >= end) return end;
    }
    const own = this.text.slice(place, end);
    const key = KEY.exec(own);
    if (!key) return this.value(place, end);
    if (rest === own) this.settle(indent, indent);
    const top = this.frames.at(-1);
    const name = key[1]!.replace(/^["']|["']$/g, "");
    if (top?.kind === "map" && top.indent === indent) top.key = name;
    else this.frames.push({ kind: "map", indent, key: name, index: 0 });
    this.add(place, place + key[1]!.length, true);
    this.last = "value";
    return this.value(place + key[0].length, end, indent);
  }

  /** Reads a value in a line. */
  private value(at: number, end: number, indent = 0): number {
    while (at < end && this.text[at] === " ") at++;
    this.word = at;
    const first = this.text[at];
    if (at >= end || first === "#") return end;
    if (first === "|" || first === ">") {
      this.literal = indent;
      return end;
    }
    if (first === "{" || first === "[") return this.lineEnd(this.flow(at));
    const stop = first === '"' || first === "'" ? this.quoted(at) : this.plain(at, end, /\s#/);
    this.add(at, Math.min(stop, end), false);
    return end;
  }

  private quoted(at: number): number {
    const end = this.text.indexOf(this.text[at]!, at + 1);
    return end < 0 ? this.text.length : end + 1;
  }

  private plain(at: number, end: number, stop: RegExp): number {
    const length = this.text.slice(at, end).search(stop);
    let to = length < 0 ? end : at + length;
    while (to > at && this.text[to - 1] === " ") to--;
    return to;
  }

  /** Reads from an opening bracket to its closing one; returns the place after it. */
  private flow(at: number): number {
    const depth = this.frames.length;
    while (at < this.text.length) {
      const char = this.text[at]!;
      const top = this.frames.at(-1);
      if (char === "{" || char === "[") {
        this.frames.push({ kind: char, indent: 1e9, key: null, index: 0 });
        this.last = char === "{" ? "key" : "value";
        this.word = ++at;
      } else if (char === "}" || char === "]") {
        this.frames.pop();
        this.last = "none";
        at++;
        if (this.frames.length === depth) return at;
      } else if (char === ",") {
        if (top?.kind === "[") top.index++;
        else if (top) top.key = null;
        this.last = top?.kind === "{" ? "key" : "value";
        this.word = ++at;
      } else if (char === "#" && /\s/.test(this.text[at - 1] ?? " ")) {
        at = this.lineEnd(at);
      } else if (/\s/.test(char)) {
        at++;
        this.word = at;
      } else if (char === ":") {
        this.last = "value";
        this.word = ++at;
      } else {
        at = this.word = this.token(at, top);
        this.word = this.found.at(-1)!.from;
      }
    }
    return at;
  }

  /** Reads a key or a value between brackets. */
  private token(at: number, top: Frame | undefined): number {
    const quoted = this.text[at] === '"' || this.text[at] === "'";
    const stop = quoted
      ? this.quoted(at)
      : this.plain(at, this.text.length, /[,{}[\]\n]|:(?=\s|$)|\s#/);
    const key = top?.kind === "{" && this.last === "key";
    if (key) top.key = this.text.slice(at, stop).replace(/^["']|["']$/g, "");
    this.add(at, Math.max(stop, at + 1), key);
    if (key && this.text[stop] !== ":") top.key = null;
    return Math.max(stop, at + 1);
  }

  private add(from: number, to: number, key: boolean): void {
    this.found.push({ from, to, text: this.text.slice(from, to), path: this.path(), key });
  }
}

// Requests to the server, below the token in the page's address.

import type { Schema } from "./schema";

export interface Start {
  name: string;
  /** The name of the file that can be saved. */
  file: string | null;
  /** What tells the content of that file from others. */
  version: string;
  text: string;
  schema: Schema;
  targets: Record<string, string[]>;
  templates: Record<string, string>;
  gallery: string[];
}

export interface Line {
  name: string;
  rate_bps: (number | null)[];
}

/** The lines of the charts, which come first. */
export interface Lines {
  duration_s: number;
  step_s: number;
  cells: number;
  flows: (Line & { rtt_s: (number | null)[] })[];
  pings: { name: string; rtt_s: (number | null)[] }[];
  links: {
    name: string;
    rate_bps: number;
    classes: (Line & { sent_bytes: number; dropped: number })[];
  }[];
  /** The number of the colour of each flow, ping and class. */
  colours: Record<string, number>;
}

/** What is said of a run: verdicts, and what stands beside names. */
export interface Result {
  wall_s: number;
  complete: boolean;
  warnings: { path: string; message: string }[];
  verdicts: { text: string; ok: boolean | null; measured: string }[];
  flows: Record<string, string>;
  pings: Record<string, string>;
  /** The share of the time that each directed link is busy; null if unknown. */
  utilisation: Record<string, number | null>;
}

export interface Network {
  nodes: { name: string; kind: string; column: number; row: number }[];
  links: {
    ends: [string, string];
    directions: [string, string];
    label: string;
    policies: Record<string, { policy: string; classes: string[] }>;
  }[];
  /** The size in pixels of a drawing of dots, whose places are pixels, too. */
  size: [number, number] | null;
  /** The number of nodes of a network that is too large to be drawn. */
  omitted?: number;
}

export interface Problem {
  line: number;
  column: number;
  path: string;
  message: string;
}

export interface Answer {
  superseded?: boolean;
  problems?: Problem[];
  more?: number;
  network?: Network;
  lines?: Lines;
  error?: string;
  ended?: string;
  result?: Result;
}

export interface Progress {
  now_s: number;
  end_s: number;
  wall_s: number;
}

/** What tells the variants of this page from those of others. */
const PAGE = Math.random().toString(36).slice(2, 8);

/** The longest text of a scenario. */
const MOST_TEXT = 2 ** 20;

/** What the server does not do, with the reason. */
export class Refused extends Error {}

const JSON_TYPE = { "Content-Type": "application/json" };

async function post(name: string, body: object): Promise<Response> {
  return fetch(name, { method: "POST", headers: JSON_TYPE, body: JSON.stringify(body) });
}

export async function get<T>(name: string): Promise<T> {
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return (await response.json()) as T;
}

/** Runs a text; progress of long runs, and the lines of its charts, come before the answer. */
export async function run(
  variant: string,
  text: string,
  seed: number,
  told: (progress: Progress) => void,
  drew: (answer: Answer) => void,
): Promise<Answer> {
  if (text.length > MOST_TEXT) throw new Refused("The text is longer than 1 MiB, the longest scenario");
  const response = await post("run", { variant: PAGE + variant, text, seed });
  if (!response.ok || !response.body) throw new Refused(await response.text());
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let last: Answer = {};
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return last;
    rest += decoder.decode(value, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      const said = JSON.parse(line) as Answer & Progress;
      if ("now_s" in said) told(said);
      else if ("lines" in said) drew(said);
      else last = said;
    }
  }
}

export async function stop(variant: string): Promise<void> {
  await post("stop", { variant: PAGE + variant, text: "", seed: 0 });
}

/** Returns the report of a run, as a page. */
export async function report(text: string, seed: number): Promise<string> {
  const response = await post("report", { variant: "report", text, seed });
  const said = (await response.json()) as { page?: string; error?: string };
  if (said.page === undefined) throw new Error(said.error ?? String(response.status));
  return said.page;
}

/** Writes a text to the file that the page began with, if it has a version; returns the next one. */
export async function saveFile(text: string, version: string): Promise<string> {
  const response = await post("save", { text, version });
  const said = (await response.json()) as { version?: string; error?: string };
  if (said.version === undefined) throw new Error(said.error ?? String(response.status));
  return said.version;
}

// What the JSON Schema of scenarios says of a place: keys, values, names.

import { linkEnds, type Path, type Scalar } from "./scan";

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  description?: string;
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema | boolean;
  prefixItems?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  type?: string | string[];
  examples?: unknown[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
}

export interface Option {
  label: string;
  detail?: string;
  info?: string;
}

/** Kinds of names, and the sections that define them. */
const SECTIONS: Record<string, string> = {
  flow: "flows",
  ping: "pings",
  policy: "policies",
  node: "nodes",
  channel: "channels",
};

/** Keys whose values, or whose items or keys, are names. */
const NAMED: Record<string, string[]> = {
  from: ["node"],
  to: ["node"],
  ends: ["node"],
  source: ["node"],
  destination: ["node"],
  access_point: ["node"],
  base_station: ["node"],
  via: ["node"],
  channel: ["channel"],
  policy: ["policy"],
  egress: ["policy"],
  on: ["link"],
  link: ["link"],
};

/** Keys of a link that may have a value for each of its ends. */
const BY_END = new Set(["egress", "shape", "rate", "delay", "jitter", "loss", "queue", "trace"]);

export class Language {
  constructor(
    private root: Schema,
    private targets: Record<string, string[]>,
  ) {}

  /** Returns the schemas of the value at a path. */
  at(path: Path): Schema[] {
    let found = this.expand([this.root]);
    for (const step of path) found = this.expand(found.flatMap((each) => below(each, step)));
    return found;
  }

  /** Returns the keys that a mapping may have. */
  keys(path: Path, scalars: Scalar[]): Option[] {
    const taken = new Set(
      scalars
        .filter((each) => each.key && same(each.path.slice(0, -1), path))
        .map((each) => String(each.path.at(-1))),
    );
    const found = new Map<string, Option>();
    for (const schema of this.at(path)) {
      for (const [label, value] of Object.entries(schema.properties ?? {})) {
        const said = this.said(value);
        if (!taken.has(label)) found.set(label, { label, info: said, detail: this.kind(value) });
      }
    }
    if (path[0] === "links" && path.length === 3 && BY_END.has(String(path[2]))) {
      for (const label of this.names(["node"], scalars)) found.set(label, { label });
    }
    return [...found.values()];
  }

  /** Returns the values that may stand at a path. */
  values(path: Path, scalars: Scalar[]): Option[] {
    const found = new Map<string, Option>();
    const named = this.namesDue(path);
    for (const label of this.names(named, scalars)) {
      found.set(label, { label, detail: named.join(", ") });
    }
    for (const schema of this.at(path)) {
      const values = "const" in schema ? [schema.const] : (schema.enum ?? []);
      for (const value of values) found.set(String(value), { label: String(value) });
      if (types(schema).includes("boolean")) {
        for (const label of ["true", "false"]) found.set(label, { label });
      }
      for (const value of schema.examples ?? []) {
        found.set(String(value), { label: String(value), detail: "example" });
      }
    }
    return [...found.values()];
  }

  /** Returns whether a number may stand at a path, and within which bounds. */
  number(path: Path): { whole: boolean; least: number; most: number } | null {
    for (const schema of this.at(path)) {
      const kinds = types(schema);
      if (schema.enum || "const" in schema) return null;
      if (kinds.includes("integer") || kinds.includes("number")) {
        const { minimum: least = 0, maximum: most = Infinity } = schema;
        return { whole: !kinds.includes("number"), least, most };
      }
    }
    return null;
  }

  /** Returns what is said of the value at a path. */
  about(path: Path): string {
    for (const schema of this.at(path)) if (schema.description) return plain(schema.description);
    return "";
  }

  private namesDue(path: Path): string[] {
    const section = path[0];
    const steps = path.filter((step) => typeof step === "string");
    const last = String(steps.at(-1));
    if ((section === "expect" || section === "published") && last in this.targets) {
      return this.targets[last]!;
    }
    if (section === "links" && steps.includes("egress")) return ["policy"];
    return NAMED[last] ?? [];
  }

  private names(kinds: string[], scalars: Scalar[]): string[] {
    return kinds.flatMap((kind) => {
      if (kind === "total") return ["total"];
      if (kind === "link") return directions(scalars);
      const section = SECTIONS[kind];
      return scalars
        .filter((each) => each.key && each.path.length === 2 && each.path[0] === section)
        .map((each) => String(each.path[1]));
    });
  }

  private said(schema: Schema): string {
    return plain(schema.description ?? this.expand([schema]).find((e) => e.description)?.description ?? "");
  }

  private kind(schema: Schema): string {
    const all = this.expand([schema]);
    const example = all.find((each) => each.examples)?.examples?.[0];
    if (example !== undefined) return String(example);
    return all.some((each) => each.enum) ? "name" : "";
  }

  private expand(schemas: Schema[]): Schema[] {
    const found: Schema[] = [];
    const todo = [...schemas];
    while (todo.length && found.length < 500) {
      const schema = todo.shift()!;
      found.push(schema);
      const name = schema.$ref?.replace("#/$defs/", "");
      if (name && this.root.$defs?.[name]) todo.push(this.root.$defs[name]);
      todo.push(...(schema.anyOf ?? []), ...(schema.oneOf ?? []));
      todo.push(...(schema.allOf ?? []).filter((each) => each.$ref));
    }
    return found;
  }
}

function below(schema: Schema, step: string | number): Schema[] {
  if (typeof step === "number") {
    const item = schema.prefixItems?.[step] ?? schema.items;
    return typeof item === "object" ? [item] : [];
  }
  const own = schema.properties?.[step];
  if (own) return [own];
  for (const [pattern, value] of Object.entries(schema.patternProperties ?? {})) {
    if (new RegExp(pattern).test(step)) return [value];
  }
  return typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : [];
}

function types(schema: Schema): string[] {
  return [schema.type ?? []].flat();
}

function plain(text: string): string {
  return text.replaceAll("``", "`").replace(/\s+/g, " ");
}

function same(one: Path, other: Path): boolean {
  return one.length === other.length && one.every((step, at) => step === other[at]);
}

/** Returns the names of both directions of each link. */
function directions(scalars: Scalar[]): string[] {
  return [...linkEnds(scalars).values()]
    .filter((pair) => pair.length === 2)
    .flatMap(([one, two]) => [`${one}>${two}`, `${two}>${one}`]);
}

// The text of a scenario: completion, errors in place, quantities to click on.

import {
  autocompletion,
  closeBrackets,
  completionKeymap,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, StateField, type Text } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  drawSelection,
  highlightActiveLine,
  keymap,
  lineNumbers,
  type DecorationSet,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Problem } from "./api";
import { quantities, type Quantity } from "./quantities";
import { placeAt, scan } from "./scan";
import type { Language, Option } from "./schema";

/** The longest text whose quantities are looked for with every change. */
const MOST = 100_000;

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], class: "y-key" },
  { tag: tags.comment, class: "y-comment" },
  { tag: [tags.string, tags.content, tags.literal], class: "y-value" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], class: "y-mark" },
]);

export class Editor {
  readonly view: EditorView;
  private numbers: StateField<{ all: Quantity[]; marks: DecorationSet }>;

  constructor(
    private language: Language,
    label: string,
    text: string,
    nonce: string,
    changed: () => void,
    private chosen: (quantity: Quantity | null) => void,
  ) {
    const find = (doc: Text) => {
      const all = doc.length <= MOST ? quantities(doc.toString(), language) : [];
      const mark = Decoration.mark({ class: "quantity" });
      return { all, marks: Decoration.set(all.map(({ from, to }) => mark.range(from, to)), true) };
    };
    this.numbers = StateField.define({
      create: (state) => find(state.doc),
      update: (value, transaction) => (transaction.docChanged ? find(transaction.newDoc) : value),
      provide: (field) => EditorView.decorations.from(field, ({ marks }) => marks),
    });
    this.view = new EditorView({
      state: EditorState.create({
        doc: text,
        extensions: [
          EditorView.cspNonce.of(nonce),
          lineNumbers(),
          lintGutter(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          indentOnInput(),
          closeBrackets(),
          autocompletion({ override: [(context) => this.complete(context)] }),
          keymap.of([...completionKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
          yaml(),
          syntaxHighlighting(colours),
          this.numbers,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed();
            if (update.selectionSet || update.docChanged) this.choose();
          }),
        ],
      }),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  /** Replaces the text, of which the beginning is seen then. */
  set text(text: string) {
    this.view.dispatch({
      changes: { from: 0, to: this.view.state.doc.length, insert: text },
      selection: { anchor: 0 },
      scrollIntoView: true,
    });
  }

  get quantities(): Quantity[] {
    return this.view.state.field(this.numbers).all;
  }

  /** Returns the text with a quantity written anew. */
  with({ from, to }: Quantity, text: string): string {
    const { doc } = this.view.state;
    return doc.sliceString(0, from) + text + doc.sliceString(to);
  }

  /** Writes a quantity anew. */
  write(quantity: Quantity, text: string): void {
    const { from, to } = quantity;
    if (this.view.state.sliceDoc(from, to) === text) return;
    this.view.dispatch({ changes: { from, to, insert: text }, userEvent: "input.slider" });
  }

  /** Shows problems at their places; those of no place at the beginning. */
  show(problems: Problem[]): void {
    const { doc } = this.view.state;
    const diagnostics = problems.map(({ line, column, path, message }) => {
      const row = doc.line(Math.min(Math.max(line, 1), doc.lines));
      // Columns count characters, of which some are two units of this text.
      const before = [...row.text].slice(0, Math.max(column - 1, 0)).join("").length;
      const from = Math.min(row.from + before, row.to);
      const rest = row.text.slice(from - row.from);
      const length = /^("[^"]*"|'[^']*'|[^,:{}[\]#]+)/.exec(rest)?.[0].trimEnd().length ?? 0;
      const to = Math.min(from + Math.max(length, 1), row.to);
      const said = path ? `${path}: ${message}` : message;
      return { from, to: Math.max(from, to), severity: "error" as const, message: said };
    });
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }

  private choose(): void {
    const { from, to } = this.view.state.selection.main;
    const at = this.quantities.find((each) => each.from <= from && to <= each.to);
    this.chosen(at ?? null);
  }

  private complete(context: CompletionContext): CompletionResult | null {
    const text = context.state.doc.toString();
    if (text.length > MOST) return null;
    const place = placeAt(text, context.pos);
    const typed = text.slice(place.from, context.pos);
    if (!context.explicit && !/^[\w>%-]*$/.test(typed)) return null;
    if (!context.explicit && place.due !== "value" && !typed) return null;
    const scalars = scan(text);
    const flow = /[{[]/.test(context.state.doc.lineAt(context.pos).text);
    const keys = place.due === "value" ? [] : this.language.keys(place.path, scalars);
    const values = place.due === "key" ? [] : this.language.values(place.path, scalars);
    const option = (type: string, suffix: string) => (each: Option) => ({
      ...each,
      type,
      apply: each.label + suffix,
    });
    const after = context.state.sliceDoc(context.pos, context.pos + 1) === ":" ? "" : ": ";
    const options = [
      ...keys.map(option("property", after)),
      ...values.map(option("constant", "")),
    ];
    const gap = place.due === "value" && !flow && text[place.from - 1] === ":" ? " " : "";
    if (gap) for (const each of options) each.apply = gap + each.apply;
    return options.length ? { from: place.from, options, validFor: /^[\w>%#-]*$/ } : null;
  }
}

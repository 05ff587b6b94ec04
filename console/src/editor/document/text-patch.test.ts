// Edits of definitions change nothing but what they mean, and lose no comment.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isEqual, isMap, isWithin, valueAt, type Path, type Plain } from "./plain-values";
import { editedValue, EditRefused, type Edit } from "./plain-edits";
import { commentsOf, parseSource, structureOf, valueOf, type SourceDocument } from "./source-tree";
import { applyChanges } from "./text-change";
import { historyEntry } from "./text-history";
import { patchDocument } from "./text-patch";
import { doubleQuoted } from "./value-writer";

function read(text: string): SourceDocument {
  const parsed = parseSource(text);
  if (parsed.document === null) throw new Error(`${parsed.problem.message} at ${parsed.problem.line}:${parsed.problem.column} of\n${text}`);
  return parsed.document;
}

const edited = (text: string, ...edits: Edit[]): string => patchDocument(read(text), edits).document.text;

describe("a set value", () => {
  test.each([
    ["a: 1 # one\nb: 2\n", ["a"], 3, "a: 3 # one\nb: 2\n"],
    ["a: 'x' # q\n", ["a"], "it's", "a: 'it''s' # q\n"],
    ['a: "x"\n', ["a"], "@input.y", 'a: "@input.y"\n'],
    ["a: x\n", ["a"], "@input.y", 'a: "@input.y"\n'],
    ["a: x\n", ["a"], "yes", 'a: "yes"\n'],
    ["a: # nothing\nb: 1\n", ["a"], "x", "a: x # nothing\nb: 1\n"],
    ["a: {b: 1, c: [x, y]} # flow\n", ["a", "c", 1], "z, z", 'a: {b: 1, c: [x, "z, z"]} # flow\n'],
    ["a: |\n  one\n  two\nb: 1\n", ["a"], "one\nthree\n", "a: |\n  one\n  three\nb: 1\n"],
    ["a: >-\n  a long text\n  that is folded\nb: 1\n", ["a"], "a long text that was folded", "a: >-\n  a long text\n  that was folded\nb: 1\n"],
    ["a: x\n", ["a"], "one\ntwo", "a: |-\n  one\n  two\n"],
    ["a: x # c\nb: 1\n", ["a"], "one\ntwo\n", "a: | # c\n  one\n  two\nb: 1\n"],
    ["a:\n  # first\n  b: 1 # second\n  # third\n  c: 2\nd: 1\n", ["a"], "x", "a: x\n# first\n# second\n# third\nd: 1\n"],
    ["a:\r\n  - 1\r\n  - 2 # two\r\n", ["a", 1], 3, "a:\r\n  - 1\r\n  - 3 # two\r\n"],
    ["\uFEFFa: 1\n", ["a"], 2, "\uFEFFa: 2\n"],
    ['{\n\t"a": 1,\n\t"b": [\n\t\t1\n\t]\n}\n', ["b", 0], "x", '{\n\t"a": 1,\n\t"b": [\n\t\t"x"\n\t]\n}\n'],
    ["a: &x 1\nb: *x\n", ["b"], 2, "a: &x 1\nb: 2\n"],
    ["a: &x 1\nb: *x\n", ["a"], 2, "a: &x 2\nb: *x\n"],
    ["a: 12345678901234567890\nb: 1\n", ["b"], 2, "a: 12345678901234567890\nb: 2\n"],
    ["a: ! x\n", ["a"], "z", "a: ! z\n"],
  ] as [string, Path, Plain, string][])("%j %j", (text, path, value, expected) => {
    expect(edited(text, { op: "set", path, value })).toBe(expected);
  });

  test("through an alias leaves what the alias names as it is", () => {
    const text = "a: &r {max: 3, wait: 1s} # shared\nb: *r\n";
    expect(edited(text, { op: "set", path: ["b", "max"], value: 5 })).toBe("a: &r {max: 3, wait: 1s} # shared\nb: {max: 5, wait: 1s}\n");
  });

  test("of a mapping changes only the keys that differ", () => {
    const text = "with:\n  # the buyer\n  to: x # who\n  'from': y\nnext: z\n";
    expect(edited(text, { op: "set", path: ["with"], value: { to: "w", from: "y", cc: "v" } })).toBe("with:\n  # the buyer\n  to: w # who\n  'from': y\n  cc: v\nnext: z\n");
  });
});

describe("an added key", () => {
  test.each([
    ["a: 1\n", "a: 1\nz: 9\n"],
    ["a: 1", "a: 1\nz: 9"],
    ["a:\n  b: 1\n  # of a\n# of the document\n", "a:\n  b: 1\n  # of a\nz: 9\n# of the document\n"],
    ["{a: 1}", "{a: 1, z: 9}"],
    ["{a: 1, }", "{a: 1, z: 9 }"],
    ["a: |+\n  x\n\n", "a: |+\n  x\n\nz: 9\n"],
    ['{"a": 1}', '{"a": 1, "z": 9}'],
    ['{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "z": 9\n}\n'],
    ["{\n  a: 1, # one\n}\n", "{\n  a: 1, # one\n  z: 9,\n}\n"],
    ["{\n  a: 1 # one\n}\n", "{\n  a: 1, # one\n  z: 9\n}\n"],
    ["", "z: 9\n"],
  ])("%j", (text, expected) => {
    const document = read(text);
    const edit: Edit = document.root === null ? { op: "set", path: [], value: { z: 9 } } : { op: "set", path: ["z"], value: 9 };
    expect(patchDocument(document, [edit]).document.text).toBe(expected);
  });

  test("before another", () => {
    const text = "- id: a # id\n  # the tool\n  tool: t\n";
    expect(edited(text, { op: "set", path: [0, "name"], value: "A", before: "tool" })).toBe("- id: a # id\n  name: A\n  # the tool\n  tool: t\n");
    expect(edited(text, { op: "set", path: [0, "name"], value: "A", before: "id" })).toBe("- name: A\n  id: a # id\n  # the tool\n  tool: t\n");
  });
});

const STEPS = `steps:
  # reads the order
  - id: read # first
    tool: read
    # nothing more

  # pays it
  - {id: pay, tool: pay} # second
  - id: gate
    if: {ref: "@pay.ok"}
    then:
      - {id: send, tool: send}
    # or else
    else: []
`;

describe("steps", () => {
  test("are inserted in the style of their neighbours", () => {
    const step = { id: "new", tool: "t" };
    expect(edited(STEPS, { op: "insert", path: ["steps"], index: 1, value: step })).toBe(STEPS.replace("    # nothing more\n", "    # nothing more\n  - id: new\n    tool: t\n"));
    expect(edited(STEPS, { op: "insert", path: ["steps"], index: 2, value: step })).toBe(STEPS.replace("# second\n", "# second\n  - {id: new, tool: t}\n"));
    expect(edited(STEPS, { op: "insert", path: ["steps"], index: 0, value: step })).toBe(STEPS.replace("steps:\n", "steps:\n  - id: new\n    tool: t\n"));
    expect(edited(STEPS, { op: "insert", path: ["steps", 2, "else"], index: 0, value: step })).toBe(STEPS.replace("    else: []\n", "    else:\n      - id: new\n        tool: t\n"));
  });

  test("are removed with what is written in them, and the comments around them stay", () => {
    expect(edited(STEPS, { op: "remove", path: ["steps", 1] })).toBe(STEPS.replace("  - {id: pay, tool: pay} # second\n", ""));
    expect(edited(STEPS, { op: "remove", path: ["steps", 2, "then", 0] })).toBe(STEPS.replace("    then:\n      - {id: send, tool: send}\n", "    then: []\n"));
  });

  test("are moved with the comments above and in them", () => {
    expect(edited(STEPS, { op: "move", path: ["steps", 0], to: ["steps"], index: 1 })).toBe(
      `steps:

  # pays it
  - {id: pay, tool: pay} # second
  # reads the order
  - id: read # first
    tool: read
    # nothing more
  - id: gate
${STEPS.split("  - id: gate\n")[1]}`,
    );
    expect(edited(STEPS, { op: "move", path: ["steps", 0], to: ["steps", 2, "then"], index: 1 })).toContain(
      `      - {id: send, tool: send}
      # reads the order
      - id: read # first
        tool: read
        # nothing more
`,
    );
  });

  test("of JSON keep their lines when they are moved", () => {
    const text = '{\n  "steps": [\n    {\n      "id": "a"\n    },\n    {\n      "id": "b",\n      "tool": "t"\n    }\n  ]\n}\n';
    expect(edited(text, { op: "move", path: ["steps", 1], to: ["steps"], index: 0 })).toBe(
      '{\n  "steps": [\n    {\n      "id": "b",\n      "tool": "t"\n    },\n    {\n      "id": "a"\n    }\n  ]\n}\n',
    );
  });

  test("that others refer to by an alias leave a copy", () => {
    const text = "steps:\n  - {id: a, retry: &r {max: 3}}\n  - {id: b, retry: *r }\n";
    expect(edited(text, { op: "remove", path: ["steps", 0] })).toBe("steps:\n  - {id: b, retry: {max: 3} }\n");
  });
});

describe("what does not parse", () => {
  test.each([
    ["a: @input.x\n", 1, 4, 'Quote it: "@input.x"'],
    ["a: 1\nb: 2\na: 3\n", 3, 1, '"a" occurs twice'],
    ["a: 'x\n", 2, 1, "Missing closing 'quote"],
    ['{"a": 1,\n "b" 2}', 2, 6, "This is not JSON"],
    ["a: *b\n", 1, 4, "alias"],
  ])("%j is refused at line %d, column %d", (text, line, column, message) => {
    const parsed = parseSource(text);
    expect(parsed.document).toBeNull();
    expect(parsed.problem).toMatchObject({ line, column });
    expect(parsed.problem?.message).toContain(message);
  });
});

// Documents of random values in random styles, with comments wherever YAML allows one.

const WORDS = fc.constantFrom("a", "b c", "@input.x", "Order @{input.id}", "yes", "12", "x: y", "# no", "", " padded ", "it's", 'say "hi"', "ünïcode ✓", "a\nb", "a\n\nb\n", "  lead\nx", "tab\tx", "-", "- x", "?", "[x", "{y}", "null", "~", "0x1f", "1e3", "🙂", "a,b", "key:", ":", "*x", "&x", "!t", "|", ">", "%", "`", "trailing \nx");
const SCALARS: fc.Arbitrary<Plain> = fc.oneof(WORDS, fc.integer(), fc.boolean(), fc.constant(null), fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => (Object.is(one, -0) ? 0 : one)), fc.string({ maxLength: 8 }), fc.constant(2n ** 70n));
const KEYS = fc.constantFrom("id", "tool", "with", "steps", "then", "next", "a b", "on", "1", "x-y", "ключ", "", "true", "@k", "k:v");
const VALUES: fc.Arbitrary<Plain> = fc.letrec<{ value: Plain }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    SCALARS,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.uniqueArray(fc.tuple(KEYS, tie("value")), { maxLength: 4, selector: ([key]) => key }).map((pairs) => mapOfPairs(pairs)),
  ),
})).value;

function mapOfPairs(pairs: readonly (readonly [string, Plain])[]): Plain {
  const found = Object.create(null) as Record<string, Plain>;
  for (const [key, value] of pairs) found[key] = value;
  return found;
}

/** Writes values with choices drawn from a list of numbers. */
class RandomWriter {
  private at = 0;
  private count = 0;

  constructor(
    private readonly draws: readonly number[],
    private readonly newline: string,
    private readonly hasComments: boolean,
  ) {}

  private draw(most: number): number {
    const found = this.draws[this.at % this.draws.length] ?? 0;
    this.at += 1;
    return found % most;
  }

  comment(): string {
    this.count += 1;
    return `# note ${this.count}`;
  }

  document(value: Plain): string {
    const lines = isMap(value) && Object.keys(value).length > 0 ? this.block(value, 0) : Array.isArray(value) && value.length > 0 ? this.block(value, 0) : [this.inline(value)];
    if (this.hasComments && this.draw(3) === 0) lines.unshift(this.comment());
    if (this.draw(5) === 0) lines.unshift("---");
    if (this.hasComments && this.draw(3) === 0) lines.push(this.comment());
    return lines.join(this.newline) + (this.draw(4) === 0 ? "" : this.newline);
  }

  private trailing(): string {
    return this.hasComments && this.draw(4) === 0 ? ` ${this.comment()}` : "";
  }

  private between(indent: number): string[] {
    const lines: string[] = [];
    if (this.draw(8) === 0) lines.push("");
    if (this.hasComments && this.draw(5) === 0) lines.push(`${" ".repeat(indent)}${this.comment()}`);
    if (this.draw(12) === 0) lines.push("   ");
    return lines;
  }

  private block(value: Plain, indent: number): string[] {
    const entries: [string, Plain][] = Array.isArray(value) ? value.map((item) => ["", item]) : Object.entries(value as Record<string, Plain>);
    const margin = " ".repeat(indent);
    return entries.flatMap(([key, item]) => {
      const start = Array.isArray(value) ? "-" : `${this.key(key)}:`;
      const isBlock = (Array.isArray(item) ? item.length > 0 : isMap(item) && Object.keys(item).length > 0) && this.draw(3) > 0;
      const before = this.between(indent);
      if (!isBlock) {
        const isText = typeof item === "string" && /^\S[^\n]*\n[^\s]/.test(item) && !/[\r\t]| \n/.test(item) && !/[^\x20-\x7e\n]/.test(item);
        if (isText && this.draw(2) === 0) return [...before, ...this.literal(`${margin}${start}`, item, indent + 2)];
        if (item === null && this.draw(2) === 0) return [...before, `${margin}${start}${this.trailing()}`];
        return [...before, `${margin}${start} ${this.inline(item)}${this.trailing()}`];
      }
      const deeper = indent + (Array.isArray(value) ? 2 : this.draw(3) === 0 && Array.isArray(item) ? 0 : 1 + this.draw(4));
      const lines = this.block(item, deeper);
      if (Array.isArray(value) && lines[0]?.startsWith(" ".repeat(deeper)) && lines[0]?.trim() !== "" && !lines[0].trim().startsWith("#") && this.draw(2) === 0) {
        return [...before, `${margin}- ${lines[0].slice(deeper)}`, ...lines.slice(1)];
      }
      return [...before, `${margin}${start}${this.trailing()}`, ...lines];
    });
  }

  private literal(start: string, text: string, indent: number): string[] {
    const content = text.replace(/\n+$/, "");
    const ends = text.length - content.length;
    const head = ends === 0 ? "|-" : ends === 1 ? "|" : "|+";
    return [`${start} ${head}`, ...content.split("\n").map((line) => (line === "" ? "" : " ".repeat(indent) + line)), ...Array<string>(Math.max(0, ends - 1)).fill("")];
  }

  private key(key: string): string {
    return /^[a-z][a-z -]*$/.test(key) && !/^(true|on)$/.test(key) && this.draw(2) === 0 ? key : doubleQuoted(key);
  }

  private inline(value: Plain): string {
    if (Array.isArray(value)) return `[${value.map((item) => this.inline(item)).join(this.draw(2) === 0 ? ", " : " , ")}${value.length > 0 && this.draw(6) === 0 ? "," : ""}]`;
    if (isMap(value)) {
      const pad = this.draw(4) === 0 ? " " : "";
      return `{${pad}${Object.entries(value)
        .map(([key, item]) => `${this.key(key)}: ${this.inline(item)}`)
        .join(", ")}${pad}}`;
    }
    if (typeof value === "string") {
      if (/^[a-z][a-z ]*[a-z]$/.test(value) && !/^(null|yes|true|false)$/.test(value) && this.draw(2) === 0) return value;
      if (!/[^\x20-\x7e]/.test(value) && this.draw(2) === 0) return `'${value.replaceAll("'", "''")}'`;
      return doubleQuoted(value);
    }
    return String(value);
  }
}

function pathsOf(value: Plain, path: Path = []): Path[] {
  const inner = Array.isArray(value) ? value.flatMap((item, index) => pathsOf(item, [...path, index])) : isMap(value) ? Object.entries(value).flatMap(([key, item]) => pathsOf(item, [...path, key])) : [];
  return [path, ...inner];
}

interface Choice {
  what: number;
  place: number;
  target: number;
  index: number;
  key: string;
  value: Plain;
}

const CHOICES: fc.Arbitrary<Choice> = fc.record({ what: fc.nat(5), place: fc.nat(1000), target: fc.nat(1000), index: fc.nat(5), key: KEYS, value: VALUES });

function chosenEdit(root: Plain, choice: Choice): Edit | null {
  const paths = pathsOf(root);
  const path = paths[choice.place % paths.length]!;
  const value = valueAt(root, path)!;
  const parent = path.length > 0 ? valueAt(root, path.slice(0, -1))! : null;
  switch (choice.what) {
    case 0:
      return { op: "set", path, value: choice.value };
    case 1:
      return isMap(value) ? { op: "set", path: [...path, choice.key], value: choice.value, before: Object.keys(value)[choice.index] } : null;
    case 2:
      return path.length > 0 ? { op: "remove", path } : null;
    case 3:
      return Array.isArray(value) ? { op: "insert", path, index: choice.index % (value.length + 1), value: choice.value } : null;
    case 4: {
      const lists = paths.filter((one) => Array.isArray(valueAt(root, one)) && !isWithin(one, path));
      const to = lists[choice.target % Math.max(1, lists.length)];
      if (!Array.isArray(parent) || to === undefined) return null;
      const list = valueAt(root, to) as Plain[];
      const isSame = to.length === path.length - 1 && isWithin(path, to);
      return { op: "move", path, to, index: choice.index % (isSame ? list.length : list.length + 1) };
    }
    default:
      return path.length > 0 && isMap(parent) && !Object.hasOwn(parent, choice.key) ? { op: "rename", path, key: choice.key } : null;
  }
}

/** The comments that an edit takes away: those within what it removes. */
function commentsTaken(document: SourceDocument, edit: Edit): number {
  return edit.op === "remove" || edit.op === "set" ? document.comments.length : 0;
}

function checkEdits(text: string, choices: readonly Choice[]): void {
  let document = read(text);
  const first = document.text;
  const undo: { inverse: readonly (readonly { from: number; to: number; insert: string }[])[] }[] = [];
  for (const choice of choices) {
    const before = structureOf(document.root);
    const edit = chosenEdit(before, choice);
    if (edit === null) continue;
    const patched = patchDocument(document, [edit]);
    const expected = editedValue(before, edit);
    const fresh = read(patched.document.text);
    expect(isEqual(structureOf(fresh.root), expected)).toBe(true);
    const after = commentsOf(patched.document.text).map(({ from, to }) => patched.document.text.slice(from, to).trimEnd());
    const old = document.comments.map(({ from, to }) => document.text.slice(from, to).trimEnd());
    if (commentsTaken(document, edit) === 0) for (const one of old) expect(after).toContain(one);
    undo.push(historyEntry(document.text, patched.changes, edit.op, 0));
    document = patched.document;
  }
  let back = document.text;
  for (const { inverse } of undo.reverse()) for (const changes of inverse) back = applyChanges(back, changes);
  expect(back).toBe(first);
}

const RUNS = Number(process.env["EDIT_RUNS"] ?? 250);

describe("random edits of random documents", () => {
  test("of YAML mean what was meant, keep the comments, and can be undone", () => {
    fc.assert(
      fc.property(VALUES, fc.array(fc.nat(1000), { minLength: 8, maxLength: 40 }), fc.boolean(), fc.array(CHOICES, { maxLength: 4 }), (value, draws, isWindows, choices) => {
        checkEdits(new RandomWriter(draws, isWindows ? "\r\n" : "\n", true).document(value), choices);
      }),
      { numRuns: RUNS },
    );
  }, 300_000);

  test("of JSON stay JSON", () => {
    const json = VALUES.filter((value) => !JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? "BIG" : one)).includes("BIG"));
    fc.assert(
      fc.property(json, fc.constantFrom(0, 2, "\t"), fc.array(CHOICES, { maxLength: 4 }), (value, indent, choices) => {
        const text = `{"root": ${JSON.stringify(value, null, indent)}}`;
        checkEdits(text, choices);
        const document = read(text);
        const edits = choices.slice(0, 1).map((choice) => chosenEdit(structureOf(document.root), choice)).filter((one) => one !== null);
        const patched = patchDocument(document, edits).document.text;
        if (edits[0]?.path.length !== 0) expect(() => JSON.parse(patched)).not.toThrow();
      }),
      { numRuns: RUNS },
    );
  }, 300_000);

  test("keep every comment that is not within what is removed or replaced", () => {
    fc.assert(
      fc.property(VALUES, fc.array(fc.nat(1000), { minLength: 8, maxLength: 40 }), CHOICES, (value, draws, choice) => {
        const document = read(new RandomWriter(draws, "\n", true).document(value));
        const edit = chosenEdit(structureOf(document.root), { ...choice, what: choice.what % 3 });
        if (edit === null) return;
        const { document: after } = patchDocument(document, [edit]);
        const left = after.comments.map(({ from, to }) => after.text.slice(from, to).trimEnd());
        const lost = document.comments.map(({ from, to }) => document.text.slice(from, to).trimEnd()).filter((one) => !left.includes(one));
        if (edit.op === "set" && !isMap(edit.value) && !Array.isArray(edit.value)) expect(lost).toEqual([]);
      }),
      { numRuns: RUNS },
    );
  }, 300_000);
});

test("an edit that is not possible is refused and changes nothing", () => {
  expect(() => edited("a: 1\n", { op: "remove", path: ["b"] })).toThrow(EditRefused);
  expect(() => edited("a: 1\n", { op: "insert", path: ["a"], index: 0, value: 1 })).toThrow(EditRefused);
  expect(() => edited("a: [{b: [1]}]\n", { op: "move", path: ["a", 0], to: ["a", 0, "b"], index: 0 })).toThrow(EditRefused);
});

test("aliases read as what they name", () => {
  const document = read("a: &x {b: [1, 2]}\nc: *x\n");
  expect(isEqual(valueOf(document.root), { a: { b: [1, 2] }, c: { b: [1, 2] } })).toBe(true);
});

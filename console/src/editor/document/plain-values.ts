// Plain values of documents: what YAML and JSON can say, with exact integers, and aliases that stay aliases.

export class AliasValue {
  constructor(readonly name: string) {}
}

export type Scalar = string | number | bigint | boolean | null;
export type Plain = Scalar | AliasValue | Plain[] | PlainMap;
export interface PlainMap {
  [key: string]: Plain;
}
export type Path = readonly (string | number)[];

export function isMap(value: unknown): value is PlainMap {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof AliasValue);
}

/** A mapping without a prototype, so that a key such as `__proto__` is a key like any other. */
export function emptyMap(): PlainMap {
  return Object.create(null) as PlainMap;
}

export function mapOf(entries: Iterable<readonly [string, Plain]>): PlainMap {
  const found = emptyMap();
  for (const [key, value] of entries) found[key] = value;
  return found;
}

/** Whether two values are the same; the order of keys does not count. */
export function isEqual(one: Plain | undefined, other: Plain | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  if (one instanceof AliasValue) return other instanceof AliasValue && one.name === other.name;
  if (Array.isArray(one)) return Array.isArray(other) && one.length === other.length && one.every((item, index) => isEqual(item, other[index]));
  if (isMap(one)) {
    if (!isMap(other)) return false;
    const keys = Object.keys(one);
    return keys.length === Object.keys(other).length && keys.every((key) => Object.hasOwn(other, key) && isEqual(one[key], other[key]));
  }
  if (typeof one === "number" && typeof other === "number") return one === other || (Number.isNaN(one) && Number.isNaN(other));
  // An integer that a float holds exactly is the same number.
  if (typeof one === "bigint" ? typeof other === "number" : typeof one === "number" && typeof other === "bigint") return one == other;
  return one === other;
}

export function valueAt(value: Plain | undefined, path: Path): Plain | undefined {
  let found = value;
  for (const key of path) {
    if (Array.isArray(found)) found = typeof key === "number" ? found[key] : undefined;
    else if (isMap(found)) found = Object.hasOwn(found, String(key)) ? found[String(key)] : undefined;
    else return undefined;
  }
  return found;
}

/** The path that a JSON pointer names in a value, as far as that goes. */
export function pathOfPointer(pointer: string, root: Plain | undefined): Path {
  const path: (string | number)[] = [];
  let found = root;
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    const step: string | number = Array.isArray(found) ? Number(key) : key;
    const next = valueAt(found, [step]);
    if (next === undefined) break;
    path.push(step);
    found = next;
  }
  return path;
}

export function isSamePath(one: Path, other: Path): boolean {
  return one.length === other.length && one.every((key, index) => key === other[index]);
}

export function isWithin(path: Path, around: Path): boolean {
  return path.length >= around.length && around.every((key, index) => key === path[index]);
}

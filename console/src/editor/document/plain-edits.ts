// Edits of a document by path, as they change its value. The text is patched to mean the same: see text-patch.ts.
import { AliasValue, isEqual, isMap, mapOf, type Path, type Plain } from "./plain-values";

/** One change at a path. `insert` puts an item into the list at `path`; `move` counts `index` in the list without the item that moves. */
export type Edit =
  | { op: "set"; path: Path; value: Plain; before?: string }
  | { op: "remove"; path: Path }
  | { op: "insert"; path: Path; index: number; value: Plain }
  | { op: "move"; path: Path; to: Path; index: number }
  | { op: "rename"; path: Path; key: string };

export class EditRefused extends Error {}

export function refuse(why: string): never {
  throw new EditRefused(why);
}

/** The value after an edit; nothing of the given one is changed. */
export function editedValue(root: Plain, edit: Edit): Plain {
  switch (edit.op) {
    case "set":
      return edit.path.length === 0 ? edit.value : changedAt(root, edit.path.slice(0, -1), (holder) => withEntry(holder, edit.path.at(-1)!, edit.value, edit.before));
    case "remove":
      return changedAt(root, edit.path.slice(0, -1), (holder) => without(holder, edit.path.at(-1)!));
    case "insert":
      return changedAt(root, edit.path, (list) => withItem(list, edit.index, edit.value));
    case "move": {
      const item = at(root, edit.path);
      const rest = editedValue(root, { op: "remove", path: edit.path });
      return editedValue(rest, { op: "insert", path: pathAfterRemoval(edit.to, edit.path), index: edit.index, value: item });
    }
    case "rename":
      return changedAt(root, edit.path.slice(0, -1), (holder) => {
        if (!isMap(holder)) return refuse("only a key of a mapping has a name");
        return mapOf(Object.entries(holder).map(([key, value]) => [key === edit.path.at(-1) ? edit.key : key, value] as const));
      });
  }
}

/** A path after the item of a list has been removed. */
export function pathAfterRemoval(path: Path, removed: Path): Path {
  const depth = removed.length - 1;
  const index = removed[depth];
  if (typeof index !== "number" || path.length <= depth || !removed.slice(0, -1).every((key, place) => key === path[place])) return path;
  const own = path[depth];
  return typeof own === "number" && own > index ? [...path.slice(0, depth), own - 1, ...path.slice(depth + 1)] : path;
}

function at(root: Plain, path: Path): Plain {
  let found: Plain | undefined = root;
  for (const key of path) {
    if (Array.isArray(found) && typeof key === "number") found = found[key];
    else if (isMap(found) && Object.hasOwn(found, String(key))) found = found[String(key)];
    else found = undefined;
    if (found === undefined) return refuse(`there is nothing at ${path.join("/")}`);
  }
  return found;
}

function changedAt(value: Plain, path: Path, change: (value: Plain) => Plain): Plain {
  const [key, ...rest] = path;
  if (key === undefined) return change(value);
  if (Array.isArray(value) && typeof key === "number" && key < value.length) return value.map((item, index) => (index === key ? changedAt(item, rest, change) : item));
  if (isMap(value) && Object.hasOwn(value, String(key))) return mapOf(Object.entries(value).map(([name, item]) => [name, name === key ? changedAt(item, rest, change) : item] as const));
  return refuse(`there is nothing at ${path.join("/")}`);
}

function withEntry(holder: Plain, key: string | number, value: Plain, before?: string): Plain {
  if (Array.isArray(holder) && typeof key === "number" && key < holder.length) return holder.map((item, index) => (index === key ? value : item));
  if (!isMap(holder)) return refuse("there is no such entry");
  if (Object.hasOwn(holder, String(key)) || before === undefined) return mapOf([...Object.entries(holder), [String(key), value]]);
  return mapOf(Object.entries(holder).flatMap((entry) => (entry[0] === before ? ([[String(key), value], entry] as const) : [entry])));
}

function without(holder: Plain, key: string | number): Plain {
  if (Array.isArray(holder)) return holder.filter((_, index) => index !== key);
  if (isMap(holder)) return mapOf(Object.entries(holder).filter(([name]) => name !== key));
  return refuse("there is no such entry");
}

function withItem(list: Plain, index: number, value: Plain): Plain {
  if (!Array.isArray(list)) return refuse("items belong to a list");
  return [...list.slice(0, index), value, ...list.slice(index)];
}

/** The edits that lead from one value at `path` to another and touch only what differs. */
export function editsBetween(path: Path, before: Plain, after: Plain): Edit[] {
  if (isEqual(before, after)) return [];
  if (before instanceof AliasValue || after instanceof AliasValue) return [{ op: "set", path, value: after }];
  if (isMap(before) && isMap(after) && Object.keys(after).length > 0 && Object.keys(before).length > 0) {
    const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
    if (removed.length === Object.keys(before).length) return [{ op: "set", path, value: after }];
    const edits: Edit[] = removed.map((key) => ({ op: "remove", path: [...path, key] }));
    for (const [key, value] of Object.entries(after)) {
      if (Object.hasOwn(before, key)) edits.push(...editsBetween([...path, key], before[key]!, value));
      else edits.push({ op: "set", path: [...path, key], value });
    }
    return edits;
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length > 0 && after.length > 0) return editsOfList(path, before, after);
  return [{ op: "set", path, value: after }];
}

function editsOfList(path: Path, before: Plain[], after: Plain[]): Edit[] {
  const most = Math.min(before.length, after.length);
  let same = 0;
  while (same < most && isEqual(before[same], after[same])) same += 1;
  let behind = 0;
  while (behind < most - same && isEqual(before[before.length - 1 - behind], after[after.length - 1 - behind])) behind += 1;
  const old = before.slice(same, before.length - behind);
  const fresh = after.slice(same, after.length - behind);
  if (same + behind === 0 && old.length > 0 && fresh.length === 0) return [{ op: "set", path, value: after }];
  const edits: Edit[] = [];
  const both = Math.min(old.length, fresh.length);
  for (let index = 0; index < both; index += 1) edits.push(...editsBetween([...path, same + index], old[index]!, fresh[index]!));
  for (let index = old.length - 1; index >= both; index -= 1) edits.push({ op: "remove", path: [...path, same + index] });
  for (let index = both; index < fresh.length; index += 1) edits.push({ op: "insert", path, index: same + index, value: fresh[index]! });
  return edits;
}

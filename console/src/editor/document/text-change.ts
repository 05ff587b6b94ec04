// Changes of a text: replaced ranges, applied together, with their inverse.

/** Replaces the characters from `from` up to `to` of a text by `insert`. */
export interface TextChange {
  from: number;
  to: number;
  insert: string;
}

/** Changes of one text that do not overlap, in order. */
export type ChangeSet = readonly TextChange[];

export function sortedChanges(changes: readonly TextChange[]): ChangeSet {
  const sorted = [...changes].filter((one) => one.from !== one.to || one.insert !== "").sort((one, other) => one.from - other.from || one.to - other.to);
  sorted.forEach((one, index) => {
    const next = sorted[index + 1];
    if (next !== undefined && next.from < one.to) throw new Error(`changes overlap at ${next.from}`);
  });
  return sorted;
}

export function applyChanges(text: string, changes: ChangeSet): string {
  let done = 0;
  const parts: string[] = [];
  for (const { from, to, insert } of changes) {
    parts.push(text.slice(done, from), insert);
    done = to;
  }
  return parts.join("") + text.slice(done);
}

/** The changes of the changed text that give back `text`. */
export function invertChanges(text: string, changes: ChangeSet): ChangeSet {
  let shift = 0;
  return changes.map(({ from, to, insert }) => {
    const inverse = { from: from + shift, to: from + shift + insert.length, insert: text.slice(from, to) };
    shift += insert.length - (to - from);
    return inverse;
  });
}

/** The smallest single change from one text to another; nothing if they are equal. */
export function changeBetween(before: string, after: string): ChangeSet {
  if (before === after) return [];
  const most = Math.min(before.length, after.length);
  let from = 0;
  while (from < most && before[from] === after[from]) from += 1;
  let behind = 0;
  while (behind < most - from && before[before.length - 1 - behind] === after[after.length - 1 - behind]) behind += 1;
  return [{ from, to: before.length - behind, insert: after.slice(from, after.length - behind) }];
}

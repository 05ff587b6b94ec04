// Merges two changes of one text by lines, where they do not touch the same lines.

interface Block {
  /** Lines of the common text that are replaced, and by what. */
  from: number;
  to: number;
  lines: string[];
}

/** The text with both changes; null if they touch the same lines. */
export function mergedText(base: string, mine: string, theirs: string): string | null {
  const lines = splitLines(base);
  const own = changedBlocks(lines, splitLines(mine));
  const other = changedBlocks(lines, splitLines(theirs));
  const all = [...own.map((block) => ({ block, side: 0 })), ...other.map((block) => ({ block, side: 1 }))].sort((a, b) => a.block.from - b.block.from || a.block.to - b.block.to);
  const kept: Block[] = [];
  for (const { block } of all) {
    const last = kept.at(-1);
    if (last !== undefined && isSame(last, block)) continue;
    // Two changes that touch each other have to be looked at.
    if (last !== undefined && block.from <= last.to) return null;
    kept.push(block);
  }
  const found: string[] = [];
  let done = 0;
  for (const { from, to, lines: fresh } of kept) {
    found.push(...lines.slice(done, from), ...fresh);
    done = to;
  }
  return [...found, ...lines.slice(done)].join("");
}

function isSame(one: Block, other: Block): boolean {
  return one.from === other.from && one.to === other.to && one.lines.length === other.lines.length && one.lines.every((line, index) => line === other.lines[index]);
}

function splitLines(text: string): string[] {
  return text === "" ? [] : text.split(/(?<=\n)/);
}

/** What differs between two lists of lines, by their longest common subsequence. */
function changedBlocks(before: string[], after: string[]): Block[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  const one = before.slice(start, before.length - end);
  const other = after.slice(start, after.length - end);
  if (one.length * other.length > 4_000_000) return [{ from: start, to: before.length - end, lines: other }];
  const width = other.length + 1;
  const table = new Uint32Array((one.length + 1) * width);
  for (let row = one.length - 1; row >= 0; row -= 1) {
    for (let column = other.length - 1; column >= 0; column -= 1) {
      table[row * width + column] = one[row] === other[column] ? table[(row + 1) * width + column + 1]! + 1 : Math.max(table[(row + 1) * width + column]!, table[row * width + column + 1]!);
    }
  }
  const blocks: Block[] = [];
  let row = 0;
  let column = 0;
  while (row < one.length || column < other.length) {
    if (row < one.length && column < other.length && one[row] === other[column]) {
      row += 1;
      column += 1;
      continue;
    }
    const block: Block = { from: start + row, to: start + row, lines: [] };
    while ((row < one.length || column < other.length) && !(row < one.length && column < other.length && one[row] === other[column])) {
      const down = row < one.length ? table[(row + 1) * width + column]! : -1;
      const right = column < other.length ? table[row * width + column + 1]! : -1;
      if (down >= right) row += 1;
      else block.lines.push(other[column++]!);
    }
    block.to = start + row;
    blocks.push(block);
  }
  return blocks;
}

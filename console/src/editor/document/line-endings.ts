// Places in a text as the text view counts them: every line break is one character there, and a byte order mark is not shown.
import { sortedChanges, type ChangeSet } from "./text-change";

export class ShownText {
  readonly text: string;
  private readonly mark: number;
  /** The places, as shown, behind each line break of two characters. */
  private readonly breaks: number[] = [];

  constructor(readonly source: string) {
    this.mark = source.startsWith("\uFEFF") ? 1 : 0;
    const body = source.slice(this.mark);
    let found = -2;
    while ((found = body.indexOf("\r\n", found + 2)) >= 0) this.breaks.push(found - this.breaks.length + 1);
    this.text = body.replace(/\r\n?/g, "\n");
  }

  /** The place in the source of a place as shown. */
  sourcePosition(shown: number): number {
    return this.mark + shown + this.countUpTo(this.breaks, shown);
  }

  /** The place as shown of a place in the source. */
  shownPosition(source: number): number {
    let low = 0;
    let high = this.text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.sourcePosition(middle) <= source) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Changes of the text as shown, as changes of the source, with its line breaks. */
  sourceChanges(changes: ChangeSet, newline: string): ChangeSet {
    return sortedChanges(changes.map(({ from, to, insert }) => ({ from: this.sourcePosition(from), to: this.sourcePosition(to), insert: insert.replace(/\r\n?|\n/g, newline) })));
  }

  private countUpTo(sorted: readonly number[], most: number): number {
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle]! <= most) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

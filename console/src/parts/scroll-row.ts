// Scrolling within a row, which leaves the page where it is, unlike `scrollIntoView`.

/** Scrolls a row sideways until a part of it is in its middle, or as near to it as it goes. */
export function scrollRowTo(row: HTMLElement | null, part: HTMLElement | null | undefined): void {
  if (row && part) row.scrollLeft = part.offsetLeft - row.offsetLeft - (row.clientWidth - part.offsetWidth) / 2;
}

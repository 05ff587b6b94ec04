// The columns that a list of executions can have, and which ones a view has.
export const COLUMNS = ["status", "execution", "workflow", "started", "took", "error", "holder", "due", "version"] as const;
export type ColumnName = (typeof COLUMNS)[number] | `@${string}`;

export const DEFAULT_COLUMNS: ColumnName[] = ["status", "execution", "started", "took", "error"];

/** The columns of a view by their names in its URL; an attribute is named `@name`. What is no column is left out. */
export function columnsOf(names: string[]): ColumnName[] {
  const found = names.flatMap((one) => one.split(",")).filter((one): one is ColumnName => (COLUMNS as readonly string[]).includes(one) || /^@./.test(one));
  return found.length ? [...new Set(found)] : DEFAULT_COLUMNS;
}

/** Moves a column by a number of places. */
export function moved(columns: ColumnName[], name: ColumnName, places: number): ColumnName[] {
  const from = columns.indexOf(name);
  const rest = columns.filter((one) => one !== name);
  rest.splice(Math.max(0, Math.min(rest.length, from + places)), 0, name);
  return rest;
}

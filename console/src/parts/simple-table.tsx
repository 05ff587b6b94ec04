// A plain table of a few rows, which scrolls by itself where the page is narrow.
import type { ReactNode } from "react";
import type { Column } from "./data-table";
import styles from "./simple-table.module.css";

interface Props<Row> {
  label: string;
  rows: readonly Row[];
  columns: Column<Row>[];
  keyOf: (row: Row, index: number) => string;
  /** Whether a row is marked, such as the one that is shown beside the table. */
  isMarked?: (row: Row) => boolean;
  /** What stands in place of rows when there are none. */
  empty?: ReactNode;
}

/** Rows under headers; the first column names its row. */
export function SimpleTable<Row>({ label, rows, columns, keyOf, isMarked, empty }: Props<Row>) {
  if (rows.length === 0 && empty) return <p className={styles.empty}>{empty}</p>;
  const sided = (one: Column<Row>) => `${one.align ? styles.end : ""} ${one.wideOnly ? styles.wide : ""}`;
  return (
    <div className={styles.frame} role="group" aria-label={label} tabIndex={0}>
      <table className={styles.table}>
        <thead>
          <tr>
            {columns.map((one) => (
              <th key={one.id} scope="col" className={sided(one)}>
                {one.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={keyOf(row, index)} className={isMarked?.(row) ? styles.marked : ""}>
              {columns.map((one, place) =>
                place === 0 ? (
                  <th key={one.id} scope="row" className={sided(one)}>
                    {one.cell(row)}
                  </th>
                ) : (
                  <td key={one.id} className={sided(one)}>
                    {one.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

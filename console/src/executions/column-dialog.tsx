// Chooses the columns of the list, and their order.
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { COLUMNS, type ColumnName, moved } from "./list-columns";
import styles from "./column-dialog.module.css";

interface Props {
  columns: ColumnName[];
  attributes: string[];
  onChange: (columns: ColumnName[]) => void;
  onClose: () => void;
}

/** A dialog with all columns; the chosen ones come first, in their order. */
export function ColumnDialog({ columns, attributes, onChange, onClose }: Props) {
  const others = [...COLUMNS, ...attributes.map((one): ColumnName => `@${one}`)].filter((one) => !columns.includes(one));
  return (
    <Dialog title="Columns" onClose={onClose}>
      <ul className={styles.list}>
        {columns.map((one, index) => (
          <li key={one}>
            <label>
              <input type="checkbox" checked disabled={columns.length === 1} onChange={() => onChange(columns.filter((other) => other !== one))} /> {nameOf(one)}
            </label>
            <Button look="quiet" aria-label={`Move ${nameOf(one)} forward`} refusal={index === 0 ? "It is the first" : ""} onClick={() => onChange(moved(columns, one, -1))}>
              ↑
            </Button>
            <Button look="quiet" aria-label={`Move ${nameOf(one)} back`} refusal={index === columns.length - 1 ? "It is the last" : ""} onClick={() => onChange(moved(columns, one, 1))}>
              ↓
            </Button>
          </li>
        ))}
        {others.map((one) => (
          <li key={one}>
            <label>
              <input type="checkbox" checked={false} onChange={() => onChange([...columns, one])} /> {nameOf(one)}
            </label>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function nameOf(column: ColumnName): string {
  return column.startsWith("@") ? `attribute ${column.slice(1)}` : column === "holder" ? "engine" : column === "started" ? "created" : column;
}

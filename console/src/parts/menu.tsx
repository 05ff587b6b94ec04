// A menu of actions behind a button.
import { DropdownMenu as Radix } from "radix-ui";
import type { ReactNode } from "react";
import buttons from "./button.module.css";
import styles from "./menu.module.css";

export interface MenuItem {
  title: string;
  onChoose: () => void;
  /** Why it can't be chosen now. */
  refusal?: string;
  danger?: boolean;
}

/** A button that opens a menu. */
export function Menu({ title, label, items }: { title: ReactNode; label?: string; items: MenuItem[] }) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger className={buttons.button} aria-label={label}>
        <span className={styles.title}>{title}</span> <span aria-hidden="true">▾</span>
      </Radix.Trigger>
      <Radix.Portal>
        <Radix.Content className={styles.menu} align="end" sideOffset={4}>
          {items.map((one) => (
            <Radix.Item key={one.title} className={`${styles.item} ${one.danger ? styles.danger : ""}`} disabled={Boolean(one.refusal)} title={one.refusal} onSelect={one.onChoose}>
              {one.title}
              {one.refusal && <span className={styles.refusal}>{one.refusal}</span>}
            </Radix.Item>
          ))}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

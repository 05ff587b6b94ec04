// Dialogs and drawers. The focus goes into them, and back to where it was before, also if a menu was opened in between.
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import styles from "./dialog.module.css";

interface Props {
  title: string;
  /** Called when it is closed, by Esc, a click outside or its button. */
  onClose: () => void;
  children: ReactNode;
  /** What stands at its end: buttons. */
  actions?: ReactNode;
  side?: boolean;
  wide?: boolean;
}

let lastFocused: HTMLElement | null = null;
document.addEventListener("focusin", ({ target }) => {
  if (target instanceof HTMLElement && !target.closest('[role="dialog"], [role="menu"]')) lastFocused = target;
});

/** A dialog that is open as long as it is rendered; with `side`, a drawer at the end of the page. */
export function Dialog({ title, onClose, children, actions, side = false, wide = false }: Props) {
  return (
    <Radix.Root open onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className={styles.overlay} />
        <Radix.Content
          aria-describedby={undefined}
          onCloseAutoFocus={(event) => {
            event.preventDefault();
            lastFocused?.focus();
          }}
          className={`${styles.content} ${side ? styles.side : styles.centre} ${wide ? styles.wide : ""}`}>
          <header className={styles.header}>
            <Radix.Title className={styles.title}>{title}</Radix.Title>
            <Radix.Close className={styles.close} aria-label="Close">
              ✕
            </Radix.Close>
          </header>
          <div className={styles.body}>{children}</div>
          {actions && <footer className={styles.actions}>{actions}</footer>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

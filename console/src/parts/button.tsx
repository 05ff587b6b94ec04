// Buttons, and links that look like them.
import type { ButtonHTMLAttributes, ReactNode } from "react";
import styles from "./button.module.css";

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: "plain" | "main" | "danger" | "quiet";
  /** Why it can't be used now; shown as its title, and the button stays focusable. */
  refusal?: string;
  busy?: boolean;
  children: ReactNode;
}

/** A button. With a `refusal` it does nothing, and says why. */
export function Button({ look = "plain", refusal = "", busy = false, children, className = "", onClick, title, ...rest }: Props) {
  const isOff = refusal !== "" || busy;
  return (
    <button
      type="button"
      {...rest}
      title={refusal || title}
      aria-disabled={isOff || undefined}
      aria-busy={busy || undefined}
      onClick={isOff ? (event) => event.preventDefault() : onClick}
      className={`${styles.button} ${styles[look]} ${className}`}
    >
      {children}
    </button>
  );
}

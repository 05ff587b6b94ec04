// The frame of a page: its heading, its actions, and facts about one thing.
import { type ReactNode, useEffect } from "react";
import styles from "./page.module.css";

interface Props {
  /** The one heading of the page; `name` is its plain text, for the title of the window. */
  title: ReactNode;
  name: string;
  below?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** A page with its heading. */
export function Page({ title, name, below, actions, children }: Props) {
  useEffect(() => {
    document.title = `${name} – Perdure`;
  }, [name]);
  return (
    <>
      <header className={styles.header}>
        <div className={styles.heading}>
          <h1 className={styles.title}>{title}</h1>
          {below && <div className={styles.below}>{below}</div>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </header>
      <div className={styles.content}>{children}</div>
    </>
  );
}

/** A section of a page. */
export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className={styles.section} aria-label={title}>
      <div className={styles.sectionHeader}>
        <h2>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  );
}

/** Names and values beside each other; what has no value is left out. */
export function Facts({ of }: { of: [name: string, value: ReactNode][] }) {
  const shown = of.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return (
    <dl className={styles.facts}>
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

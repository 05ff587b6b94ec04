// Tabs whose choice is in the URL. The keys 1 to 9 choose one.
import { Tabs as Radix } from "radix-ui";
import { type ReactNode, useEffect, useRef } from "react";
import { useShortcut } from "@/shell/shortcuts";
import { scrollRowTo } from "./scroll-row";
import styles from "./tabs.module.css";

export interface Tab {
  id: string;
  title: ReactNode;
  content: () => ReactNode;
}

/** Shows one of several views of the same thing. */
export function Tabs({ label, tabs, chosen, onChoose }: { label: string; tabs: Tab[]; chosen: string; onChoose: (id: string) => void }) {
  const present = tabs.find((one) => one.id === chosen) ?? tabs[0];
  const list = useRef<HTMLDivElement>(null);
  const presentId = present?.id;
  useEffect(() => {
    scrollRowTo(list.current, list.current?.querySelector<HTMLElement>('[data-state="active"]'));
  }, [presentId]);
  useShortcut("1-9", "a tab", (event) => {
    const tab = tabs[Number(event.key) - 1];
    if (tab) onChoose(tab.id);
  });
  return (
    <Radix.Root value={present?.id} onValueChange={onChoose} activationMode="manual" className={styles.root}>
      <Radix.List ref={list} aria-label={label} className={styles.list}>
        {tabs.map((one) => (
          <Radix.Trigger key={one.id} value={one.id} className={styles.tab}>
            {one.title}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {present && (
        <Radix.Content value={present.id} className={styles.content}>
          {present.content()}
        </Radix.Content>
      )}
    </Radix.Root>
  );
}

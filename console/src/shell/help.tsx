// The help: which keys act now, and where to read more.
import { Dialog } from "@/parts/dialog";
import { useShortcuts } from "./shortcuts";
import { useSettings } from "./settings";
import styles from "./help.module.css";

/** A dialog with the keys that act on this page. */
export function Help({ onClose }: { onClose: () => void }) {
  const { singleKeys } = useSettings();
  const unique = new Map(useShortcuts().map((one) => [one.keys, one]));
  return (
    <Dialog title="Keys" onClose={onClose}>
      {!singleKeys && <p>Single keys are switched off; the menu with your name switches them on.</p>}
      <dl className={styles.keys}>
        {[...unique.values()].map((one) => (
          <div key={one.keys}>
            <dt>
              {one.keys.split(" ").map((key) => (
                <kbd key={key}>{key.replace("mod+", /mac/i.test(navigator.platform) ? "⌘ " : "Ctrl ")}</kbd>
              ))}
            </dt>
            <dd>{one.says}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

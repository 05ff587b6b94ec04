// The actions of an execution: those that fit its state as buttons, the others in a menu, each with the reason why it can't be used.
import { useRef } from "react";
import { Button } from "@/parts/button";
import { Menu } from "@/parts/menu";
import { useRefusal } from "@/shell/identity";
import { isEnded } from "@/words/states";
import { CommandDialog } from "./command-dialog";
import { COMMANDS, type Command, type Fields, type Verb } from "./commands";
import type { ExecutionRecord, StepTrace } from "./execution-reads";
import { MessageDialog } from "./message-dialog";
import styles from "./execution-actions.module.css";

export interface OpenedAction {
  verb: Verb | "send";
  given?: Fields;
}

interface Props {
  record: ExecutionRecord;
  steps: StepTrace[];
  definition: unknown;
  /** Why nothing can be done: such as that a past state is shown. */
  refusal: string;
  opened: OpenedAction | null;
  onOpen: (action: OpenedAction | null) => void;
}

/** The actions of an execution, and the dialog of the one that is opened. */
export function ExecutionActions({ record, steps, definition, refusal, opened, onOpen }: Props) {
  const refusals = { operator: useRefusal("operator"), author: useRefusal("author") };
  const refusalOf = (one: Command) => refusal || refusals[one.role === "author" ? "author" : "operator"] || one.refusal(record);
  const sendRefusal = refusal || refusals.operator || (isEnded(record.status) ? "It has ended; it receives no messages" : "");
  const main = COMMANDS.filter((one) => !one.refusal(record) && MAIN.includes(one.verb)).slice(0, 2);
  const frame = useRef<HTMLSpanElement>(null);
  const close = () => {
    onOpen(null);
    // What was chosen in the menu is not there any more, so the focus goes back to the button of the menu.
    setTimeout(() => document.activeElement === document.body && frame.current?.querySelector<HTMLElement>('[aria-haspopup="menu"]')?.focus(), 0);
  };
  const command = COMMANDS.find((one) => one.verb === opened?.verb);
  return (
    <span ref={frame} className={styles.actions}>
      {main.map((one, index) => (
        <Button key={one.verb} look={one.danger ? "danger" : index === 0 && (one.verb === "retry" || one.verb === "resume") ? "main" : "plain"} refusal={refusalOf(one)} onClick={() => onOpen({ verb: one.verb })}>
          {one.title}
        </Button>
      ))}
      <Menu
        title="Actions"
        items={[
          ...COMMANDS.filter((one) => !one.danger).map((one) => ({ title: one.title, refusal: refusalOf(one), onChoose: () => onOpen({ verb: one.verb }) })),
          { title: "Send message …", refusal: sendRefusal, onChoose: () => onOpen({ verb: "send" }) },
          ...COMMANDS.filter((one) => one.danger).map((one) => ({ title: one.title, danger: true, refusal: refusalOf(one), onChoose: () => onOpen({ verb: one.verb }) })),
        ]}
      />
      {command && opened && <CommandDialog key={command.verb} command={command} record={record} steps={steps} given={opened.given} onClose={close} />}
      {opened?.verb === "send" && <MessageDialog record={record} definition={definition} onClose={close} />}
    </span>
  );
}

const MAIN: Verb[] = ["retry", "resume", "pause", "cancel"];


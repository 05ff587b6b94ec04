// The actions of an execution: those that fit its state as buttons, the others in a menu, each with the reason why it can't be used.
import { Button } from "@/parts/button";
import { Menu } from "@/parts/menu";
import { useRefusal } from "@/shell/identity";
import { isEnded } from "@/words/states";
import { CommandDialog } from "./command-dialog";
import { COMMANDS, type Command, type Fields, type Verb } from "./commands";
import type { ExecutionRecord, StepTrace } from "./execution-reads";
import { MessageDialog } from "./message-dialog";

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
  // The menu gives the focus back to its button first, so that the dialog can do the same when it closes.
  const openLater = (action: OpenedAction) => setTimeout(() => onOpen(action), 0);
  const command = COMMANDS.find((one) => one.verb === opened?.verb);
  return (
    <>
      {main.map((one) => (
        <Button key={one.verb} look={one.danger ? "danger" : one.verb === "retry" || one.verb === "resume" ? "main" : "plain"} refusal={refusalOf(one)} onClick={() => onOpen({ verb: one.verb })}>
          {one.title}
        </Button>
      ))}
      <Menu
        title="Actions"
        items={[
          ...COMMANDS.filter((one) => !one.danger).map((one) => ({ title: one.title, refusal: refusalOf(one), onChoose: () => openLater({ verb: one.verb }) })),
          { title: "Send message …", refusal: sendRefusal, onChoose: () => openLater({ verb: "send" }) },
          ...COMMANDS.filter((one) => one.danger).map((one) => ({ title: one.title, danger: true, refusal: refusalOf(one), onChoose: () => openLater({ verb: one.verb }) })),
        ]}
      />
      {command && opened && <CommandDialog key={command.verb} command={command} record={record} steps={steps} given={opened.given} onClose={() => onOpen(null)} />}
      {opened?.verb === "send" && <MessageDialog record={record} definition={definition} onClose={() => onOpen(null)} />}
    </>
  );
}

const MAIN: Verb[] = ["retry", "resume", "pause", "cancel"];


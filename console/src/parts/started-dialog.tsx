// Says which execution was started, with the way to it.
import { Link } from "@tanstack/react-router";
import { Button } from "./button";
import { Dialog } from "./dialog";

interface Props {
  of: { workflow: string; id: string };
  /** Whether it was started; not if an execution of this id was there before. */
  isNew?: boolean;
  onClose: () => void;
}

/** A dialog with a link to an execution; Enter goes there. */
export function StartedDialog({ of, isNew = true, onClose }: Props) {
  return (
    <Dialog title={isNew ? "Started" : "It was there already"} onClose={onClose} actions={<Button onClick={onClose}>Close</Button>}>
      <p>
        {isNew ? "The server has started " : "An execution of this id was there, and nothing was started: "}
        <Link to="/executions/$workflow/$id" params={{ workflow: of.workflow, id: of.id }} autoFocus>
          {of.workflow}/{of.id}
        </Link>
      </p>
    </Dialog>
  );
}

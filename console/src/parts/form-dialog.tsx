// A dialog with a form: it says what went wrong and keeps what was typed, and closes only when the server has confirmed.
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useId } from "react";
import { refresh } from "@/api/client";
import { ActionError } from "./action-error";
import { Button } from "./button";
import blocks from "./blocks.module.css";
import { Dialog } from "./dialog";

interface Props<Result> {
  title: string;
  /** The word on the button that submits. */
  submit: string;
  danger?: boolean;
  /** Why it can't be submitted now. */
  refusal?: string;
  onSubmit: () => Promise<Result>;
  /** What was read from paths that begin so is read again afterwards. */
  paths?: string[];
  onClose: () => void;
  /** Called after success with what `onSubmit` has returned, in place of `onClose`. */
  onDone?: (result: Result) => void;
  wide?: boolean;
  side?: boolean;
  children: ReactNode;
}

/** A dialog with a form. */
export function FormDialog<Result>({ title, submit, danger = false, refusal = "", onSubmit, paths = [], onClose, onDone, wide, side, children }: Props<Result>) {
  const id = useId();
  const sending = useMutation({
    mutationFn: onSubmit,
    onSuccess: async (result) => {
      await refresh(...paths);
      if (onDone) onDone(result);
      else onClose();
    },
  });
  return (
    <Dialog
      title={title}
      onClose={onClose}
      wide={wide}
      side={side}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" form={id} look={danger ? "danger" : "main"} busy={sending.isPending} refusal={refusal}>
            {submit}
          </Button>
        </>
      }
    >
      <form
        id={id}
        className={blocks.form}
        onSubmit={(event) => {
          event.preventDefault();
          if (!refusal && !sending.isPending) sending.mutate();
        }}
      >
        {children}
      </form>
      {refusal && <p className={blocks.soft}>{refusal}</p>}
      {sending.error !== null && <ActionError error={sending.error} paths={paths} />}
    </Dialog>
  );
}

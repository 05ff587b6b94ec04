// Passes the decision on an approval to another person.
import { useMutation } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { api, refresh, type Schemas } from "@/api/client";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice } from "@/parts/notice";
import { tellEveryone } from "@/shell/told";
import { useIdentity } from "@/shell/identity";
import { voterName } from "@/shell/own-name";
import styles from "./approval-page.module.css";

/** A dialog that lets another person decide in one's place. */
export function DelegateDialog({ approval, onClose }: { approval: Schemas["Approval"]; onClose: () => void }) {
  const identity = useIdentity();
  const pass = useMutation({
    mutationFn: async ({ to, note }: { to: string; note: string }) => {
      await api.POST("/api/approvals/{id}/delegate", { params: { path: { id: approval.id } }, body: { to, note: note || undefined, by: voterName(identity, approval.assignees), groups: identity?.groups } });
      return to;
    },
    onSuccess: (to) => {
      tellEveryone(`${to} may decide now`);
      void refresh("/api/approvals");
      onClose();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    pass.mutate({ to: String(given.get("to") ?? "").trim(), note: String(given.get("note") ?? "") });
  };
  return (
    <Dialog title="Pass the decision on" onClose={onClose}>
      <p>The other person decides in your place. You may not any more, unless you are in a group that may.</p>
      <form onSubmit={submit} className={styles.form}>
        <label className={styles.comment}>
          To (the name with which they sign in)
          <input name="to" required autoFocus />
        </label>
        <label className={styles.comment}>
          Note (optional)
          <textarea name="note" rows={2} maxLength={10_000} />
        </label>
        {pass.error && <ErrorNotice error={pass.error} />}
        <Button look="main" type="submit" busy={pass.isPending}>
          Pass on
        </Button>
      </form>
    </Dialog>
  );
}

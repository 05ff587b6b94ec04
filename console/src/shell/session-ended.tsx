// Stands over the page when the server does not know the browser any more, so that nothing that was typed is lost.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { hasToken, signIn } from "@/api/access";
import { SERVER_URL } from "@/api/base";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice } from "@/parts/notice";
import styles from "./session-ended.module.css";

/** Asks to sign in again, over the page. */
export function SessionEnded() {
  const [error, setError] = useState<unknown>(null);
  const [isHidden, hide] = useState(false);
  const client = useQueryClient();
  if (isHidden) return null;
  if (hasToken())
    return (
      <Dialog title="This page is of an earlier start" onClose={() => hide(true)}>
        <p>
          <code>perdure dev</code> was started anew, with another token. Open the address that it has printed. Nothing here is lost meanwhile: this tab stays as it is.
        </p>
      </Dialog>
    );
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const key = String(new FormData(event.currentTarget).get("key") ?? "");
    try {
      await signIn(key);
      await client.invalidateQueries();
    } catch (failed) {
      setError(failed);
    }
  };
  const back = encodeURIComponent(location.pathname + location.search);
  return (
    <Dialog title="Sign in to go on" onClose={() => hide(true)}>
      <p>You are not signed in, or your session has ended. What you have typed on this page is still there.</p>
      {error !== null && <ErrorNotice error={error} />}
      <form onSubmit={(event) => void submit(event)} className={styles.form}>
        <label htmlFor="session-key">Key</label>
        <input id="session-key" name="key" type="password" autoComplete="off" required autoFocus />
        <Button look="main" type="submit">
          Sign in
        </Button>
      </form>
      <p>
        Or <a href={`${SERVER_URL}/login?next=${back}`}>go to the page for signing in</a>, which leaves this page.
      </p>
    </Dialog>
  );
}

// Stands over the page when the server does not know the browser any more, so that nothing that was typed is lost.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { goOnSignedIn, hasToken, signIn } from "@/api/access";
import { ROOT_PATH, SERVER_URL } from "@/api/base";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice } from "@/parts/notice";
import { whoamiQuery } from "./identity";
import styles from "./session-ended.module.css";

const WAYS = (document.querySelector<HTMLMetaElement>('meta[name="sign-in"]')?.content ?? "key").split(" ");

/** Asks to sign in again, over the page, in the ways that the server has. */
export function SessionEnded() {
  const [error, setError] = useState<unknown>(null);
  const [isHidden, hide] = useState(false);
  const client = useQueryClient();
  const [isFirst] = useState(() => client.getQueryData(whoamiQuery.queryKey) === undefined); // nothing was typed before
  if (isHidden) return null;
  if (hasToken() && WAYS.includes("token"))
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
    } catch (failed) {
      setError(failed);
    }
  };
  const goOn = async () => {
    try {
      if (!(await goOnSignedIn())) setError(new Error("You are not signed in yet. Sign in in the other tab first."));
    } catch (failed) {
      setError(failed);
    }
  };
  const back = encodeURIComponent(location.pathname.slice(ROOT_PATH.length) + location.search);
  return (
    <Dialog title="Sign in to go on" onClose={() => hide(true)}>
      <p>{isFirst ? "You are not signed in." : "Your session has ended. What you have typed on this page is still there."}</p>
      {error !== null && <ErrorNotice error={error} />}
      {WAYS.includes("key") && (
        <form onSubmit={(event) => void submit(event)} className={styles.form}>
          <label htmlFor="session-key">Key</label>
          <input id="session-key" name="key" type="password" autoComplete="off" required autoFocus />
          <Button look="main" type="submit">
            Sign in
          </Button>
        </form>
      )}
      {WAYS.includes("oidc") && (
        <p>
          <a href={`${SERVER_URL}/login/oidc?next=${back}`} {...(isFirst ? {} : { target: "_blank", rel: "noreferrer" })}>
            Sign in with your organization
          </a>
          {!isFirst && (
            <>
              {" "}
              in another tab, then <Button onClick={() => void goOn()}>Go on here</Button>
            </>
          )}
        </p>
      )}
      {WAYS.join("") === "" && <p>The application around this page decides who may use it. Sign in there, and load this page again.</p>}
    </Dialog>
  );
}

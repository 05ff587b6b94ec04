// Says why an action has failed. Where somebody else was faster, it says so, and reads what is there now; what was typed stays.
import { Problem } from "@/api/problem";
import { refresh } from "@/api/client";
import { sentence } from "@/words/sentence";
import { Button } from "./button";
import { ErrorNotice, Notice } from "./notice";

/** The error of an action on what is read from `paths`. */
export function ActionError({ error, paths = [] }: { error: unknown; paths?: string[] }) {
  if (error instanceof Problem && (error.code === "stale_record" || error.status === 412))
    return (
      <Notice look="warn">
        <p>Somebody else has changed this since the page read it, so nothing was saved. What you have typed is still here.</p>
        <p>{sentence(error.message)}</p>
        <Button onClick={() => void refresh(...paths)}>Read what is there now</Button>
        <p>Then look whether your change still fits, and save again.</p>
      </Notice>
    );
  return <ErrorNotice error={error} />;
}

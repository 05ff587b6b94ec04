// Copies a text, also where the page is served without HTTPS.
import { useState } from "react";
import { Button } from "./button";

/** Copies `text`, and says whether that worked. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without HTTPS there is no clipboard API; what follows works there.
    const area = document.createElement("textarea");
    area.value = text;
    area.setAttribute("readonly", "");
    area.className = "visually-hidden";
    document.body.append(area);
    const focused = document.activeElement as HTMLElement | null;
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return copied;
  }
}

/** A button that copies a text. */
export function CopyButton({ text, children = "Copy", label }: { text: string; children?: string; label?: string }) {
  const [said, say] = useState("");
  return (
    <>
      <Button
        look="quiet"
        aria-label={label}
        onClick={async () => {
          say((await copyText(text)) ? "Copied" : "The browser does not allow it; mark the text and copy it by hand");
          setTimeout(() => say(""), 2_500);
        }}
      >
        {said || children}
      </Button>
      <span role="status" className="visually-hidden">
        {said}
      </span>
    </>
  );
}

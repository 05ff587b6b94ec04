// Hands something to the browser as a file.

/** Saves a text, or bytes, as a file of this name. */
export function download(name: string, content: string | Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type: "text/plain" }) : content);
  link.download = name.replaceAll(/[/\\:]/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

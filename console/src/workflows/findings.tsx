// What the server says about a document: errors and warnings with their lines.
import type { Schemas } from "@/api/client";
import blocks from "@/parts/blocks.module.css";

/** A list of findings; nothing if there are none. */
export function Findings({ findings }: { findings: Schemas["DefinitionFinding"][] }) {
  if (findings.length === 0) return null;
  return (
    <ul className={blocks.stack}>
      {findings.map((one) => (
        <li key={`${one.pointer} ${one.code}`}>
          <span className={one.severity === "error" ? blocks.bad : blocks.warn}>{one.severity === "error" ? "✗ error" : "! warning"}</span>
          {one.line ? ` in line ${one.line}` : one.pointer ? ` at ${one.pointer}` : ""}: {one.message} {one.suggestion && <span className={blocks.soft}>{one.suggestion}</span>}
        </li>
      ))}
    </ul>
  );
}

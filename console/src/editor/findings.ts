// What was found in a definition, by the page itself or by the server, with its place.
import type { Schemas } from "@/api/client";
import { pathOfPointer, type Path, type Plain } from "./document/plain-values";
import type { SourceProblem } from "./document/source-tree";

/** Line and column count from 1; 0: not known. */
export interface Finding {
  code: string;
  severity: "error" | "warning";
  message: string;
  path: Path;
  line: number;
  column: number;
  fix: readonly Record<string, unknown>[];
}

export function findingOfProblem(problem: SourceProblem): Finding {
  return { code: "not_readable", severity: "error", message: problem.message, path: [], line: problem.line, column: problem.column, fix: [] };
}

export function findingsOf(found: Schemas["DocumentPreview"]["findings"], value: Plain | undefined): Finding[] {
  return found.map((one) => ({
    code: one.code,
    severity: one.severity,
    message: one.message,
    path: pathOfPointer(one.pointer, value),
    line: one.line ?? 0,
    column: one.column ?? 0,
    fix: (one.fix ?? []) as Record<string, unknown>[],
  }));
}

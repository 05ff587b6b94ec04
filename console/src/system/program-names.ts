// The workflows that an engine knows, from the names of its programs.

/** The names of workflows with their versions: "checkout 1, 2". Programs of Perdure itself are left out, and `hasCatalog` says whether definitions run there. */
export function knownWorkflows(programs: readonly string[]): { names: [name: string, versions: string[]][]; hasCatalog: boolean } {
  const found = new Map<string, string[]>();
  let hasCatalog = false;
  for (const one of programs) {
    const at = one.lastIndexOf("@");
    const [name, version] = at < 0 ? [one, ""] : [one.slice(0, at), one.slice(at + 1)];
    if (name.startsWith("perdure.definition")) hasCatalog = true;
    else if (!name.startsWith("perdure.")) found.set(name, [...(found.get(name) ?? []), ...(version ? [version] : [])]);
  }
  return { names: [...found].sort(([one], [other]) => one.localeCompare(other)), hasCatalog };
}

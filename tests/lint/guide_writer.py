"""Writes the guide of lint from the table of kinds.

python -m tests.lint.guide_writer
"""

from collections.abc import Iterator
from pathlib import Path

from perdure.lint import RULES, LintRule

GUIDE = Path(__file__).parents[2] / "docs/guides/lint.md"

HEAD = """\
# Lint

An execution is replayed: after a restart its workflow function runs again from its beginning, and each verb that is in the log returns what it returned
before. That works as long as the function does the same as the first time. `perdure lint` finds where it would not, by reading the source; nothing is
imported and nothing is run.

```sh
perdure lint                                 # everything here and below
perdure lint flows.py shop/                  # a file, and a directory
git show HEAD:flows.py | perdure lint -      # standard input
perdure lint --select PD1,PD201 --strict     # some kinds only; warnings count as errors
perdure lint --explain PD302                 # why, with an example of what is bad and what is good
perdure lint --json                          # for programs
```

It exits with 0 if there are no errors, with 11 if there are, and with `--strict` for warnings too. An **error** breaks replay, or fails whenever it runs; a
**warning** is right today, and may not be after a deploy, a crash, or a year.

What is looked into is workflow code: functions decorated with `@workflow`, those whose first parameter is hinted at as `Context`, `Turn`, `SyncContext` or
`SyncTurn`, branches, functions in these, and functions and methods of the same module that they call. Steps, undo handlers and what is handed to `ctx.step`,
`ctx.attempt` and `ctx.keep` run once and are remembered: they may do what they like. Names are followed through imports and aliases; what a local name
shadows is left alone. Other modules are not followed.

A finding that is right as it is, is ignored on its line, by its code and with the reason; an ignore that nothing needs is a finding itself.

```python
ctx.log.info("took", cpu_s=time.process_time())  # perdure: ignore[PD101]  # it is only shown
```

In CI: `perdure lint --strict src/`. As a hook of pre-commit:

```yaml
- repo: local
  hooks:
    - {id: perdure-lint, name: perdure lint, entry: perdure lint, language: system, types: [python]}
```

## The kinds
"""

GROUPS = {
    "PD0": "The file",
    "PD1": "The world outside",
    "PD2": "Order",
    "PD3": "Verbs",
    "PD4": "State",
    "PD5": "Clean-up",
}
"""By how codes begin."""


def guide() -> str:
    """All of it."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield f"{HEAD}\n| | | | what to do |\n|---|---|---|---|\n"
    for one in RULES.values():
        yield f"| [{one.code}](#{one.code.lower()}-{one.name}) | {one.severity} | {one.title} | {one.fix} |\n"
    for beginning, title in GROUPS.items():
        yield f"\n## {title}\n"
        yield from (_section(one) for one in RULES.values() if one.code.startswith(beginning))


def _section(kind: LintRule) -> str:
    return (
        f"\n### {kind.code} {kind.name}\n\n{kind.title}. {kind.why} What to do: {kind.fix}.\n\n"
        f"```python\n# bad\n{kind.bad.strip()}\n```\n\n```python\n# good\n{kind.good.strip()}\n```\n"
    )


if __name__ == "__main__":
    GUIDE.write_text(guide(), encoding="utf-8")

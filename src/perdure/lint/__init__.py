"""The linter: finds what breaks replay in the source of workflow functions, before it happens.

`workflow_code` finds the functions that are replayed, `checks` the violations in them, and `rules` explains each rule and its fix. Names are resolved through
imports and aliases. Where a local name may shadow another, the linter stays silent: a missed finding is better than a false one.
"""

from perdure.lint.lint_findings import LintFinding, LintRule, Severity
from perdure.lint.linter import lint, unreadable
from perdure.lint.rules import RULES

__all__ = ["RULES", "LintFinding", "LintRule", "Severity", "lint", "unreadable"]

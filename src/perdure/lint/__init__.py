"""Lint: what breaks replay in workflow functions, found in their source before it happens.

`functions` finds the functions that are replayed, `checks` what is wrong in them, `kinds` says what that means and what to do. Names are
resolved through imports and aliases, and what a local name shadows is left alone: rather nothing is raised than something false.
"""

from perdure.lint.lint_findings import LintFinding, LintRule, Severity
from perdure.lint.linter import lint, unreadable
from perdure.lint.rules import RULES

__all__ = ["RULES", "LintFinding", "LintRule", "Severity", "lint", "unreadable"]

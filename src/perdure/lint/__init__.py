"""Lint: what breaks replay in workflow functions, found in their source before it happens.

`functions` finds the functions that are replayed, `checks` what is wrong in them, `kinds` says what that means and what to do. Names are
resolved through imports and aliases, and what a local name shadows is left alone: rather nothing is raised than something false.
"""

from perdure.lint.finding import Finding, Kind, Severity
from perdure.lint.kinds import KINDS
from perdure.lint.lint import lint, unreadable

__all__ = ["KINDS", "Finding", "Kind", "Severity", "lint", "unreadable"]

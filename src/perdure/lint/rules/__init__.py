"""The rules for what breaks replay, by code: 0 is about the file, 1 the outside world, 2 order, 3 verbs, 4 state, 5 clean-up."""

from perdure.lint.lint_findings import FILE_RULES, LintRule
from perdure.lint.rules.context_rules import CLEANUP_RULES, VERB_RULES
from perdure.lint.rules.external_rules import ACTION_RULES, READ_RULES
from perdure.lint.rules.order_rules import ORDER_RULES, STATE_RULES

_GROUPS = (FILE_RULES, READ_RULES, ACTION_RULES, ORDER_RULES, VERB_RULES, STATE_RULES, CLEANUP_RULES)
RULES: dict[str, LintRule] = {rule.code: rule for group in _GROUPS for rule in group}

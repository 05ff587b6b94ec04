"""The kinds of what breaks replay, by code: 0 is about the file, 1 the world outside, 2 order, 3 verbs, 4 state, 5 clean-up."""

from perdure.lint.finding import Kind
from perdure.lint.kinds import cleanup, doing, file, order, outside, state, verbs

KINDS: dict[str, Kind] = {one.code: one for group in (file, outside, doing, order, verbs, state, cleanup) for one in group.KINDS}

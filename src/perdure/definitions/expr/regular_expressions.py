"""Regular expressions by RE2, which match in time proportional to the text. `google-re2` is an optional dependency."""

from functools import lru_cache
from typing import Any

from perdure.core.errors import BadExpression, MissingExtra
from perdure.definitions.expr.plain_values import shortened

PATTERN_CHARACTERS_MAX = 4096
MEMORY_BYTES_MAX = 2**20


@lru_cache(maxsize=128)
def compile_regex(pattern: str) -> Any:
    """Compiles a pattern; the result has `search`, `fullmatch` and so on, as in Python's `re`.

    Raises:
        BadExpression: it is not a regular expression, or is too large.
    """
    re2 = _library()
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise BadExpression("", f"a regular expression has {len(pattern):,} characters", f"write at most {PATTERN_CHARACTERS_MAX:,}")
    options = re2.Options()
    options.log_errors, options.max_mem = False, MEMORY_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        hint = "RE2 has no backreferences and no look-around; see github.com/google/re2/wiki/Syntax"
        raise BadExpression("", f"{shortened(pattern)!r} is not a regular expression: {shortened(why, 100)}", hint) from None


def _library() -> Any:
    try:
        import re2  # type: ignore[import-untyped]  # it has no type hints
    except ImportError:
        raise MissingExtra("a regular expression", "google-re2", "definitions") from None
    return re2

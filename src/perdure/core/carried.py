"""What an execution carries from its start to its steps: named values of the caller's context, such as a request's id or the place of a trace."""

Carried = tuple[tuple[str, bytes], ...]
"""Encoded values by name, in order of name."""

CARRIED_BYTES_MAX = 16 * 1024
"""The size of all names and values together: each task of a queue has them, and each child."""

TRIGGER_CARRIED = "perdure.trigger"
"""The name under which an execution that a trigger has started carries what it knows of it: ``@trigger`` of a definition."""

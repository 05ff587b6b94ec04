"""What an execution carries from its start to its steps: named values of the caller's context, such as a request's id or the place of a trace."""

Carried = tuple[tuple[str, bytes], ...]
"""Encoded values by name, in order of name."""

CARRIED_BYTES_MAX = 16 * 1024
"""The size of all names and values together: each task of a queue has them, and each child."""

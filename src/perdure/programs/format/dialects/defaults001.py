"""What seed 001 takes where a document says nothing."""

STEPS_MAX = 50
BASH_S = 120
BASH_MAX_S = 600
AWAIT_MS_MIN = 1000
AT_ONCE = 1
"""How many items of a loop are in hand at once."""

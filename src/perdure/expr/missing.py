"""What is not there: how it is taken, and how the news of it travels from where it was looked for to who decides.

Natively a reference to nothing is an error. The shapes that came before differ: in some it is null, in some a row of a condition about it does not hold.
"""

from typing import Literal

Missing = Literal["error", "null", "false"]
"""What a reference to nothing comes to: an error; null; or null in values, and in a condition a row that does not hold."""


class Absent(Exception):
    """What a reference names is not there. It does not leave this package."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        self.what, self.hint = what, hint


class Nowhere(Absent):
    """A root is named that does not stand here, as an item outside of an each."""


class Unfit(Absent):
    """What is there is of a kind that nothing can be made of."""

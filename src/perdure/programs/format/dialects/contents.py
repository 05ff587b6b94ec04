"""The contents that a document refers to instead of holding them: configs, schemas and sources, as ``cas://sha256:…`` or ``sha256:…``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.programs.format.dialects.reading import Notes, kind
from perdure.programs.format.parse import unfit

SCHEME = "cas://"


class Contents:
    """Finds the contents of one document in `held`, by the reference as it stands or without its scheme."""

    def __init__(self, held: Mapping[str, Any], notes: Notes) -> None:
        self._held, self._notes = held, notes

    def find(self, ref: str, pointer: str, wanted: tuple[type, ...], called: str) -> Any:
        """The content of a reference, of one of the types `wanted`; None if there is none, which is an error in words about what it is `called`."""
        name = ref.removeprefix(SCHEME)
        found = next((self._held[one] for one in (ref, name, SCHEME + name) if one in self._held), None)
        if found is None:
            text = f"there is no content for {ref[:80]!r}; give it by blobs= or --blobs DIR, as a file of that name"
            self._notes.error("unknown_blob", pointer, text)
        elif problem := unfit(found):
            self._notes.error("bad_blob", pointer, f"the content of {ref[:80]!r} can't be used: {problem.message}")
            return None
        elif not isinstance(found, wanted):
            self._notes.error("bad_blob", pointer, f"the content of {ref[:80]!r} is {kind(found)}, not {called}; give another one under its name")
            return None
        return found

"""Reads SQL statements by name from the files that hold them.

In a file, a line `-- name: its_name` begins a statement. Comment lines that describe it follow, at least one, then its text; a semicolon at the end is not
part of the text. `{its_name}` within another statement of the same files stands for its text, so that lists of columns and conditions are written once.
Any other word in braces is a slot, which the code that executes the statement fills with SQL (`str.format`).

What comes before the first name describes the file.
"""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files

_BEGIN = "-- name: "
_SLOT = re.compile(r"\{(\w+)\}")


class SqlQueries:
    """The statements of some files of a package, each an attribute. The files are read once, when the object is made.

    Raises:
        ValueError: two statements have one name, or one lacks its description or its text, or contains itself.
    """

    def __init__(self, package: str, *file_names: str) -> None:
        texts: dict[str, str] = {}
        for file_name in file_names:
            for name, text in read_statements(files(package).joinpath(file_name).read_text(encoding="utf-8"), file_name).items():
                if name in texts:
                    raise ValueError(f"{package} has two SQL statements {name!r}: one is in {file_name}. Rename or remove one of them")
                texts[name] = text
        self._texts = {name: _filled(texts, name, ()) for name in texts}
        self.__dict__.update(self._texts)

    def __getattr__(self, name: str) -> str:
        raise AttributeError(f"no SQL statement is named {name!r}; add it to a .sql file of the package")

    def __iter__(self) -> Iterator[str]:
        """The names of the statements."""
        return iter(self._texts)


def read_statements(script: str, file_name: str) -> dict[str, str]:
    """Returns the statements of a file by name, as they are written there."""
    found: dict[str, str] = {}
    for part in f"\n{script}".split(f"\n{_BEGIN}")[1:]:
        name, *lines = part.splitlines()
        text = "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")
        if not text or not lines[0].startswith("-- "):
            raise ValueError(f"{file_name}: the SQL statement {name!r} lacks its {'description' if text else 'text'}; write it below the line of its name")
        if name in found or not name.isidentifier():
            raise ValueError(f"{file_name}: {name!r} is no name of a SQL statement, or is one twice; use another")
        found[name] = text
    return found


def _filled(texts: Mapping[str, str], name: str, within: tuple[str, ...]) -> str:
    """The text of a statement, with the texts of others in it."""
    if name in within:
        raise ValueError(f"the SQL statement {name!r} contains itself ({' in '.join((name, *reversed(within)))}); write its text out")
    return _SLOT.sub(lambda slot: _filled(texts, slot[1], (*within, name)) if slot[1] in texts else slot[0], texts[name])

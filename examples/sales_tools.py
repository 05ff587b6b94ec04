"""What `sales_pipeline.yaml` asks of the world: the rows of a file of comma-separated values."""

import csv
from pathlib import Path
from typing import Any

from perdure import Fatal

HERE = Path(__file__).parent


def read_table(file: str, numbers: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The rows of a file with the names of its columns on the first line; those of `numbers` are integers. A relative name is looked for beside this file.

    Raises:
        Fatal: there is no such file, or one of the numbers is none.
    """
    try:
        with (HERE / file).open(encoding="utf-8", newline="") as lines:
            return [
                {name: _value(file, reader_line, name, text, numbers) for name, text in row.items()} for reader_line, row in enumerate(csv.DictReader(lines), 2)
            ]
    except FileNotFoundError as error:
        raise Fatal(f"there is no file {HERE / file}; name one that there is: -i sales=FILE") from error


def _value(file: str, line: int, name: str, text: str, numbers: tuple[str, ...]) -> Any:
    if name not in numbers:
        return text
    try:
        return int(text)
    except ValueError as error:
        raise Fatal(f"{file}, line {line}: {name} is {text!r}, and should be a number") from error

"""A plain script around an App: imports a stock file into the shop of `examples/web/flows.py`, and prints how far it is.

    python -m examples.shop_import stock.csv

The id of the import follows from the content of the file. A script that was killed, or interrupted with Ctrl-C, therefore continues when it is run again, and
a file that was imported before is not imported again. Each page of rows is added to the stock exactly once.
"""

import csv
import io
import sys
from hashlib import sha256
from pathlib import Path

from examples.web.flows import app, import_stock
from perdure import ExecutionFailed


def problem_of(text: str) -> str:
    """Returns the first line that is no row of a stock file, in words; nothing if there is none."""
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if len(row) != 2 or not row[1].strip().lstrip("-").isdecimal():
            return f"line {number} is {','.join(row)!r}, and not ARTICLE,PIECES such as screws,200"
    return ""


def import_file(text: str) -> None:
    """Imports the text of a file, and prints its progress; continues an import of the same text that has begun before."""
    with app as shop:
        handle = shop.start(import_stock.with_(id=sha256(text.encode()).hexdigest()[:16]), text)
        if not handle.created:
            print("this file has been begun before", flush=True)
        for progress in handle.stream():
            print(f"{progress.value['done']} of {progress.value['of']} rows", flush=True)
        print(f"{handle.result()} rows are in the stock")


def main(path: str) -> int:
    """Imports the file at `path`; returns the exit code."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"{path} can't be read: {error}. Name a stock file in UTF-8", file=sys.stderr)
        return 10
    if problem := problem_of(text):
        print(f"{path}: {problem}. Correct it; nothing was imported", file=sys.stderr)
        return 10
    try:
        import_file(text)
    except ExecutionFailed as failed:
        print(f"{path}: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run it again to continue", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.shop_import FILE.csv")
    sys.exit(main(sys.argv[1]))

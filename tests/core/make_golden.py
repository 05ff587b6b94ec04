"""Writes the golden files of the encodings: ``PYTHONPATH=src:. python -m tests.core.make_golden``, by hand, when a format is changed on purpose."""

from pathlib import Path

from perdure.core import log_format, messages
from tests.core.test_log_format import EVENTS
from tests.core.test_messages import MESSAGES

HERE = Path(__file__).parent / "golden"


def main() -> None:
    """Write each event and each message, a line of hexadecimal each."""
    for name, rows in (
        ("log_v2.hex", [log_format.encode_row([event]) for event in EVENTS]),
        ("messages_v2.hex", [messages.encode_message(one) for one in MESSAGES]),
    ):
        (HERE / name).write_text("".join(f"{row.hex()}\n" for row in rows), encoding="ascii")


if __name__ == "__main__":
    main()

"""An `asyncio.run` program with an App inside: a desk that takes orders from a directory, beside other tasks of the program.

    python -m examples.shop_desk DESK

An order is a file that is moved to ``DESK/inbox``; its name is the id and its content the price in cents, such as ``o1.txt`` with 4900. The answer is
written to ``DESK/outbox``, and only then the order is removed. Whenever the desk is killed, the next one finds the orders that have no answer yet, and starts
them again under the same ids; so each is paid exactly once. Ctrl-C and SIGTERM close the desk.
"""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.web.flows import app, order
from perdure import ExecutionFailed, InputDiffers

LOOK_S = 0.05
REPORT_S = 1.0


class Desk:
    """The directory of a desk, with the orders that are being served."""

    def __init__(self, directory: Path) -> None:
        self.inbox, self.outbox = directory / "inbox", directory / "outbox"
        self.answered = 0
        self.serving: set[str] = set()
        for place in (self.inbox, self.outbox):
            place.mkdir(parents=True, exist_ok=True)

    async def take_orders(self, tasks: asyncio.TaskGroup) -> None:
        """Serves each new file of the inbox in a task of its own."""
        while True:
            for file in sorted(self.inbox.glob("*.txt")):
                if file.name not in self.serving:
                    self.serving.add(file.name)
                    tasks.create_task(self.serve(file))
            await asyncio.sleep(LOOK_S)

    async def serve(self, file: Path) -> None:
        """Answers one order."""
        self.put_answer(file, await self.answer_to(file.stem, self.text_of(file)))
        self.serving.discard(file.name)
        self.answered += 1

    def text_of(self, file: Path) -> str:
        """Returns what an order says."""
        return file.read_text(encoding="utf-8", errors="replace").strip()

    def put_answer(self, file: Path, answer: str) -> None:
        """Puts an answer into the outbox; only when it is there, the order is removed."""
        written = self.outbox / f"{file.name}.part"
        written.write_text(f"{answer}\n")
        written.replace(self.outbox / file.name)
        file.unlink()

    async def answer_to(self, order_id: str, text: str) -> str:
        """Runs an order to its end, and returns the answer in a line."""
        if not text.isdecimal():
            return f"refused: {text!r} is no price. Write the price in cents, such as 4900"
        try:
            return await app.run(order.with_(id=order_id, strict=True), order_id, int(text))
        except InputDiffers:
            return "refused: there is an order of this name with another price. Choose another name"
        except ExecutionFailed as failed:
            return f"failed: {failed.error.message}"

    async def report(self) -> None:
        """Prints what has changed, from time to time."""
        said = ""
        while True:
            found = Counter(one.status for one in await app.client.list(workflow=order))
            line = f"answered {self.answered}; orders: {', '.join(f'{count} {status}' for status, count in sorted(found.items())) or 'none'}"
            if line != said:
                print(line, flush=True)
            said = line
            await asyncio.sleep(REPORT_S)


@contextmanager
def cancelled_by(number: signal.Signals) -> Iterator[None]:
    """Cancels the current task by a signal, as asyncio does by Ctrl-C."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)


async def serve_desk(directory: Path) -> None:
    """Serves a desk until the program is interrupted: the engine, the orders and the report share one event loop."""
    desk = Desk(directory)
    with cancelled_by(signal.SIGTERM):
        async with app, asyncio.TaskGroup() as tasks:
            tasks.create_task(desk.take_orders(tasks))
            tasks.create_task(desk.report())
            print("the desk is open", flush=True)


def main(directory: str) -> int:
    """Serves a desk; returns the exit code."""
    try:
        asyncio.run(serve_desk(Path(directory)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("the desk is closed; orders without an answer continue when it opens again", flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m examples.shop_desk DIRECTORY")
    sys.exit(main(sys.argv[1]))

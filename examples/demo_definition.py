"""A definition, `claim.yaml`, told by its picture: its worker is killed with kill -9 in the loop and while a person thinks, and it goes on.

    python examples/demo_definition.py

Its tools, `claim_tools.py`, write what they do into a ledger. In the end the ledger is held to what is promised: if a claim is false, this says so and
exits with 1.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a script has nothing but its own directory there

from examples import claim_ledger, claim_tools
from perdure import Client, Definition, Vote
from perdure.definitions.graph.graph_drawing import text_drawing
from perdure.runtime.server import serve

PATIENCE_S = 30.0


def claim() -> Definition:
    """The definition, with its tools."""
    return Definition.load(Path(__file__).with_name("claim.yaml"), tools=[claim_tools.reserve, claim_tools.release, claim_tools.ask_bank, claim_tools.pay])


class Stage:
    """A directory with the database and the ledger, and the worker of the moment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory}/claims.db"
        self.worker: subprocess.Popen[bytes] | None = None

    def hire(self) -> None:
        """Begin a worker, a process of its own."""
        environment = os.environ | {"CLAIM_DIRECTORY": str(self.directory)}
        self.worker = subprocess.Popen([sys.executable, __file__, "--work", self.url], env=environment)

    def kill(self, when: str) -> None:
        """Kill the worker without a word, and begin another."""
        if self.worker is not None:
            self.worker.send_signal(signal.SIGKILL)
            self.worker.wait()
            print(f"   kill -9 {when}; another worker takes over")
        self.hire()

    def done(self) -> list[dict[str, Any]]:
        """The lines of the ledger."""
        return claim_ledger.ledger_of(self.directory)

    def until(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait for something.

        Raises:
            TimeoutError: it does not come.
        """
        ends_s = time.monotonic() + PATIENCE_S
        while not happened():
            if time.monotonic() > ends_s:
                raise TimeoutError(f"waited for {what} in vain")
            time.sleep(0.02)


def play(stage: Stage) -> list[str]:
    """Play two claims; return what turned out false."""
    definition = claim()
    with Client(stage.url) as client:
        stage.hire()
        print("Claim 1, of 2,500.00: the bank is asked until it knows, and Ada has to approve.")
        large = client.start(definition.with_(id="1"), number="1", cents=250_000)
        stage.until("two questions", lambda: sum(line["what"] == "ask" for line in stage.done()) >= 2)
        stage.kill("in the loop")
        stage.until("Ada to be asked", lambda: large.status().status == "waiting_approval")
        stage.kill("while Ada thinks")
        stage.until("the approval", lambda: bool(client.approvals("ada")))
        (asked,) = client.approvals("ada")
        print(f"   Ada is asked: {asked.title}")
        client.get(asked.id, "perdure.approval").send("vote", Vote("ada", True, value={"reason": "all is in order"}))
        result: Any = large.result(PATIENCE_S)
        print(f"   {result}\n")
        print(text_drawing(large.graph()))
        print("\nClaim 2, of 12.00: nobody has to be asked.")
        small: Any = client.start(definition.with_(id="2"), number="2", cents=1_200).result(PATIENCE_S)
        print(f"   {small}\n")
    return claim_ledger.told(claim_ledger.claims_of(stage.done(), result, small))


def main() -> int:
    """0 if all was true, 1 if something was not."""
    if sys.argv[1:2] == ["--work"]:
        asyncio.run(serve([claim().graph], db=sys.argv[2]))
        return 0
    with tempfile.TemporaryDirectory(prefix="perdure-claims-") as directory:
        stage = Stage(Path(directory))
        try:
            return 1 if play(stage) else 0
        finally:
            if stage.worker is not None:
                stage.worker.kill()
                stage.worker.wait()


if __name__ == "__main__":
    sys.exit(main())

"""The claims of `claim.yaml` over HTTP: a server is killed with kill -9 in the loop and while a person thinks, and its clients notice no more than a pause.

    python examples/demo_http.py

The server is `perdure serve`, with a key for each who sends requests; the clients are those of the standard library, and send a request that got no answer
again. In the end the ledger of the tools is held to what is promised: if a claim is false, this says so and exits with 1.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a script has nothing but its own directory there

from examples import claim_ledger
from perdure.definitions.format.document_parser import parse_document

HERE = Path(__file__).parent
PATIENCE_S = 60.0
AUTHOR, CLERK, ADA = "author", "clerk", "ada"
ROLES = {AUTHOR: ("author",), CLERK: ("operator", "viewer"), ADA: ("approver", "viewer")}
START = "/api/workflow-versions/claim/executions"


class Service:
    """A directory with the database and the ledger, and the server of the moment, which is always at the same address."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.server: subprocess.Popen[str] | None = None
        self.keys = {name: self._key(name, *roles) for name, roles in ROLES.items()}

    def _command(self, *words: str, **how: Any) -> subprocess.Popen[str]:
        environment = os.environ | {"PERDURE_DB": f"sqlite:///{self.directory}/claims.db", "CLAIM_DIRECTORY": str(self.directory)}
        return subprocess.Popen([sys.executable, "-m", "perdure.cli", *words], env=environment, stderr=subprocess.DEVNULL, text=True, **how)

    def _key(self, name: str, *roles: str) -> str:
        with self._command("keys", "create", name, *(f"--role={role}" for role in roles), stdout=subprocess.PIPE) as made:
            return made.communicate()[0].strip()

    def begin(self) -> None:
        """Begins a server. It is not waited for: clients connect when they can."""
        options = ("--tools", str(HERE / "claim_tools.py"), "--listen", f"127.0.0.1:{self.port}", "--lease", "1s")
        self.server = self._command("serve", str(HERE / "claim.yaml"), *options, stdout=subprocess.DEVNULL)

    def kill(self, when: str) -> None:
        """Kills the server without a word, and begins another."""
        self.end()
        print(f"   kill -9 of the server {when}; another one begins")
        self.begin()

    def end(self) -> None:
        """Ends the server."""
        if self.server is not None:
            self.server.send_signal(signal.SIGKILL)
            self.server.wait()

    def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Sends a request, again until there is an answer, and returns that.

        Raises:
            RuntimeError: the request is refused.
            TimeoutError: no server answers.
        """
        sent = {"Authorization": f"Bearer {self.keys[who]}", "Content-Type": "application/json", **headers}
        ends_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_s:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
            try:
                connection.request(method, path, None if body is None else json.dumps(body), sent)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):  # no server at the moment, or one that ended before it had answered
                time.sleep(0.05)
                continue
            finally:
                connection.close()
            if answer.status in (409, 503) and answer.headers["Retry-After"]:
                time.sleep(float(answer.headers["Retry-After"]))
                continue
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
            return json.loads(text or "null")
        raise TimeoutError(f"no server answered {method} {path}")

    def until(self, what: str, happened: Callable[[], Any]) -> Any:
        """Waits for something, and returns it.

        Raises:
            TimeoutError: it does not come.
        """
        ends_s = time.monotonic() + PATIENCE_S
        while not (found := happened()):
            if time.monotonic() > ends_s:
                raise TimeoutError(f"waited for {what} in vain")
            time.sleep(0.05)
        return found

    def result(self, id: str) -> Any:
        """Waits for the result of a claim."""
        return self.until(
            f"the result of claim {id}", lambda: (r := self.ask(CLERK, "GET", f"/api/executions/claim/{id}/result?waitSeconds=20"))["isThere"] and r
        )["value"]


def play(service: Service) -> list[str]:
    """Plays two claims; returns what turned out false."""
    service.begin()
    document = parse_document((HERE / "claim.yaml").read_bytes()).document
    published = service.ask(AUTHOR, "POST", "/api/workflows/sync", {"document": document})
    print(f"The author's key publishes claim.yaml: {published['definition']['slug']}@{published['definition']['version']}.\n")
    print(f"Claim 1, of 2,500.00: the clerk's key sends POST {START}.")
    large = {"input": {"number": "1", "cents": 250_000}}
    started = service.ask(CLERK, "POST", START, large, **{"Idempotency-Key": "1"})
    print(f"   {json.dumps(started)}")
    service.until("two questions", lambda: sum(line["what"] == "ask" for line in claim_ledger.ledger_of(service.directory)) >= 2)
    service.kill("in the loop")
    again = service.ask(CLERK, "POST", START, large, **{"Idempotency-Key": "1"})
    print(f"   the clerk's request is sent once more: {json.dumps(again)}")
    service.until("Ada to be asked", lambda: service.ask(ADA, "GET", "/api/executions/claim/1")["status"] == "waiting_approval")
    service.kill("while Ada thinks")
    (asked,) = service.until("the approval", lambda: service.ask(ADA, "GET", "/api/approvals")["items"])
    print(f"   Ada is asked: {asked['title']}")
    decide = f"/api/approvals/{asked['id'].replace('%', '%25').replace('/', '%2F').replace(':', '%3A')}/decide"
    service.ask(ADA, "POST", decide, {"by": ADA, "approve": True, "value": {"reason": "all is in order"}}, **{"Idempotency-Key": "ada-1"})
    paid = service.result("1")
    print(f"   {json.dumps(paid)}\n")
    print("Claim 2, of 12.00: nobody has to be asked.")
    service.ask(CLERK, "POST", START, {"input": {"number": "2", "cents": 1_200}}, **{"Idempotency-Key": "2"})
    small = service.result("2")
    print(f"   {json.dumps(small)}\n")
    listed = service.ask(CLERK, "GET", "/api/executions?workflow=claim&status=completed")["items"]
    claims = {
        **claim_ledger.claims_of(claim_ledger.ledger_of(service.directory), paid, small),
        "the request that was sent twice has made one execution": (started["created"], again["created"], len(listed)) == (True, False, 2),
    }
    return claim_ledger.told(claims)


def main() -> int:
    """0 if all was true, 1 if something was not."""
    with tempfile.TemporaryDirectory(prefix="perdure-http-") as directory:
        service = Service(Path(directory))
        try:
            return 1 if play(service) else 0
        finally:
            service.end()


if __name__ == "__main__":
    sys.exit(main())

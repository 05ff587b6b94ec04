"""A bank on this machine, for `payment_http.yaml`: it is busy once for each order, charges under an Idempotency-Key just once, and gives back.

    python examples/bank_server.py [LEDGER]

prints where it listens, and appends to the file LEDGER, a line of JSON each, what it has charged, shipped and given back. It begins with what stands there.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

TOKEN = "the-bank-s-token"
NOT_SERVED = "x"
"""To orders whose number begins like this nobody ships."""


class Bank(ThreadingHTTPServer):
    """What was done, by its key; whoever asks again with a key is told what came of it the first time."""

    def __init__(self, ledger: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Desk)
        self.ledger, self.lock, self.refused = ledger, Lock(), set[str]()
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        self.done: dict[str, Any] = {one["key"]: one for one in map(json.loads, lines)}

    def do(self, what: str, key: str, said: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A status, and what is said to it."""
        with self.lock:
            if key in self.done:
                return 200, self.done[key]
            if what == "charges" and said["order"] not in self.refused:
                self.refused.add(said["order"])
                return 503, {"error": "the bank is busy"}
            if what == "parcels" and said["order"].startswith(NOT_SERVED):
                return 422, {"error": f"nobody goes where {said['order']} should go"}
            made = {"id": f"{what}-{len(self.done) + 1}", "what": what, "key": key, **said}
            with self.ledger.open("a") as file:
                file.write(json.dumps(made) + "\n")
                file.flush()
                os.fsync(file.fileno())
            self.done[key] = made
            return 201, made


class Desk(BaseHTTPRequestHandler):
    """Where the bank is asked."""

    server: Bank

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, found = 401, {"error": "who are you?"}
        else:
            status, found = self.server.do(self.path.strip("/"), self.headers["Idempotency-Key"], said)
        raw = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """What is asked is in the ledger."""


if __name__ == "__main__":
    with Bank(Path(sys.argv[1] if len(sys.argv) > 1 else "ledger.jsonl")) as bank:
        print(f"http://127.0.0.1:{bank.server_address[1]}", flush=True)
        bank.serve_forever()

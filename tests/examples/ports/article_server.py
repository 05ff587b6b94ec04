"""An API of articles on this machine, with the addresses of the one that Prefect's example asks. It counts requests, and fails those that it is told to."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TAGS = (["python", "data"], ["python"], ["rust"])


def article(number: int) -> dict[str, Any]:
    """The article of a number: a tenth of the reactions that its number says, and more fields than anyone asks for."""
    return {
        "type_of": "article",
        "id": number,
        "title": f"Article {number}, with a comma",
        "published_at": "2026-08-21T10:00:00Z",
        "url": f"https://example.org/{number}",
        "comments_count": number % 7,
        "positive_reactions_count": number // 10,
        "tag_list": TAGS[number % len(TAGS)],
        "user": {"name": "Ada", "username": f"user{number % 3}"},
    }


class ArticleServer:
    """The API. `failures` says how many further requests for a page are answered by an error."""

    def __init__(self) -> None:
        self.requests, self.failures = Counter[int](), Counter[int]()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                page, per_page = int(query["page"][0]), int(query["per_page"][0])
                api.requests[page] += 1
                if api.failures[page] > 0:
                    api.failures[page] -= 1
                    self.send_error(503)
                    return
                body = json.dumps([article(number) for number in range((page - 1) * per_page, page * per_page)]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api"

    @contextmanager
    def at_work(self) -> Iterator["ArticleServer"]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

"""Sets up `logging` for a command: text for people, or JSON for programs that collect logs."""

import logging
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal
from urllib.parse import unquote, urlsplit

from perdure.observe.json_logs import JsonLogFormatter

LogFormat = Literal["text", "json"]

SECRET_VARIABLES = (
    "PERDURE_TOKEN",
    "PERDURE_SIGNING_SECRET",
    "PERDURE_FORMER_SIGNING_SECRETS",
    "PERDURE_WORKER_TOKEN",
    "PERDURE_ENCRYPTION_KEYS",
    "PERDURE_SECRETS_KEY",
    "PGPASSWORD",
)
SECRET_PREFIX = "PERDURE_SECRET_"
"""Variables of the environment whose values are never written: these, and those that begin so, which are secrets of steps."""

ACCESS_LOGGER = "perdure.access"
"""The logger of requests to the HTTP API: one record each, at INFO. Those for the health and the metrics of the process are at DEBUG."""

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_logging(logger: str, level: int, form: LogFormat = "text", secrets: Iterable[str] = ()) -> None:
    """Sends the log of `logger`, from `level` on, to standard error.

    As text, this leaves handlers as they are if code has set up logging itself. As JSON it replaces them, since every line has to be an object.
    """
    if form == "json":
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLogFormatter((*secrets, *secrets_of_process())))
        logging.basicConfig(handlers=[handler], force=True)
        logging.captureWarnings(True)
    else:
        logging.basicConfig(format=TEXT)
    logging.getLogger(logger).setLevel(level)


def secrets_of_process() -> list[str]:
    """Returns the secrets that the environment gives this process: tokens, keys, and passwords of databases."""
    found = [value for name, value in os.environ.items() if name in SECRET_VARIABLES or name.startswith(SECRET_PREFIX)]
    return [*filter(None, found), *passwords_in(os.environ.get("PERDURE_DB", ""))]


def passwords_in(url: str) -> list[str]:
    """Returns the passwords in the URL of a database, as they are written there and decoded."""
    written = re.findall(r"(?i)[?&](?:password|sslpassword)=([^&]*)", url)
    with suppress(ValueError):  # it is no URL; who opens it says so
        written += filter(None, [urlsplit(url).password])
    return list(dict.fromkeys(text for one in written for text in (one, unquote(one))))

"""The keys of kept secrets: those of `PERDURE_SECRETS_KEY`, or of a file, as ``id:key,id:key``; the first encrypts, each decrypts."""

import os
from pathlib import Path

from perdure.core.errors import BadValue
from perdure.stores.encryption import Encrypted, parse_keys

VARIABLE, FILE_VARIABLE = "PERDURE_SECRETS_KEY", "PERDURE_SECRETS_KEY_FILE"


def chosen(file: str | Path | None = None) -> Encrypted | None:
    """What encrypts with the keys that are meant: those in `file`, else of `PERDURE_SECRETS_KEY`, else in the file that `PERDURE_SECRETS_KEY_FILE` names;
    None if there are none.

    Raises:
        BadValue: they can't be read, or the package `cryptography` is not installed.
    """
    text, called = os.environ.get(VARIABLE, ""), VARIABLE
    if file is not None or not text.strip():
        named = file or os.environ.get(FILE_VARIABLE)
        if not named:
            return None
        text, called = _read(Path(named)), f"the key file {named}"
    entries = [line.strip() for line in text.replace(",", "\n").splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return Encrypted(parse_keys(",".join(entries), called))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or "").lower() if isinstance(error, OSError) else "it is no text"
        raise BadValue("the key file", str(file), f"one that can be read: {why}") from None

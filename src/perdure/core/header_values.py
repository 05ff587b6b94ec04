"""Reads what headers of HTTP say, whatever they are: a value of another form is none."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def whole_number_of(text: str, most: int) -> int | None:
    """Returns the whole number in a header; None if there is none of up to `most`. Of digits, only those of ASCII count."""
    text = text.lstrip("0") or text[:1]
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)):
        return None
    return number if (number := int(text)) <= most else None


def body_encoding(text: str) -> str:
    """Returns the encoding in the header Content-Encoding; empty if the body is as it is."""
    encoding = text.strip().lower()
    return "" if encoding == "identity" else encoding


def body_charset(text: str) -> str:
    """Returns the charset in the header Content-Type; empty if it names none, or UTF-8."""
    for one in text.split(";")[1:]:
        name, _, value = one.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
            return "" if charset in ("utf-8", "utf8") else charset
    return ""


def host_of(text: str) -> str:
    """Returns the host name in the header Host; empty if there is none."""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""


def authority_of(url: str) -> str:
    """Returns the host and port in the header Origin; empty if there are none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def is_http_url(text: str) -> bool:
    """Is true if a text is a URL of HTTP or HTTPS with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and text.isprintable() and " " not in text
    except ValueError:  # a host in brackets without an end, or a port that is no number
        return False


def may_use_proxy(url: str) -> bool:
    """Whether requests to a URL may go through a proxy of the environment; not over http to this machine: no proxy reaches it, and none may see a token."""
    try:
        parts = urlsplit(url)
    except ValueError:  # it is no URL: nothing is sent to it
        return True
    return parts.scheme == "https" or not is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Is true if only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False

"""Targets: URLs that a request may go to. What a URL may be is decided here, where its host leads when it is connected to (see `network`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perdure.core.errors import MissingExtra

if TYPE_CHECKING:
    from httpx2 import URL

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
PORTS = {"http": 80, "https": 443}


class WrongUrl(ValueError):
    """A text is no URL that a request may go to, and why."""


def target(text: str, base: URL | None = None) -> URL:
    """The URL of a text, in which a host is as it is looked up; relative to `base`, if there is one. What stands behind a # is dropped.

    Raises:
        WrongUrl: it is no URL of HTTP, or has more in it than one should.
        MissingExtra: the library is not installed.
    """
    try:
        from httpx2 import URL, InvalidURL  # here, as it takes a library that is optional
    except ImportError:
        raise MissingExtra("a step of the kind http", "httpx2", "http") from None
    try:
        url = URL(text) if base is None else base.join(text)
        if "#" in text:
            url = url.copy_with(fragment=None)
        scheme, host, port, has_user = url.scheme, url.raw_host.decode("ascii"), url.port, bool(url.userinfo) or "@" in url.netloc.decode("ascii")
    except (InvalidURL, ValueError) as error:  # what the library for names of hosts raises is not always translated
        raise WrongUrl(f"it is no URL: {error}" if isinstance(error, InvalidURL) else "it is no URL") from None
    if scheme not in PORTS:
        raise WrongUrl(f"a URL begins with http:// or https://, not with {scheme}:" if scheme else "a URL begins with http:// or https://")
    if has_user:
        raise WrongUrl("a URL has no user and password in it; send them in a header, as a secret")
    if why := wrong_host(host):
        raise WrongUrl(why)
    if port is not None and not 0 < port < 65_536:
        raise WrongUrl("a port is a number from 1 to 65535")
    return url


def wrong_host(host: str) -> str:
    """Why a host is none that is connected to: it has other letters than names have, or is a number that some would take for an address."""
    if ":" in host:
        return "an address has no zone in it" if "%" in host else ""
    if not host:
        return "a URL names a host"
    if host.endswith("."):
        return "a host is written without the dot at its end"
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]) and not _IPV4.fullmatch(host):
        return "an IPv4 address is four decimal numbers with dots between"
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        return "a host has letters, digits and hyphens, with dots between"
    return ""


def origin(url: URL) -> tuple[str, str, int]:
    """Whom a URL is answered by: scheme, host and port."""
    return url.scheme, url.raw_host.decode("ascii"), url.port or PORTS[url.scheme]


def shown(url: URL, whole: bool = True) -> str:
    """A URL as texts for people have it: without what stands behind the ?; where it may be a secret, only whom it leads to."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii').partition('?')[0] if whole else '/…'}"

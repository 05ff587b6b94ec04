"""URLs and addresses of requests: which URLs are valid, and which addresses are public.

The tables follow IANA's registries of special-purpose addresses (RFC 6890 and its updates), with the metadata addresses of clouds. Of IPv6 only global
unicast (2000::/3) is public; an IPv4 address inside an IPv6 address is judged by itself. Addresses are checked when a connection is made (see
`guarded_network`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from perdure.core.errors import BadValue, MissingExtra

if TYPE_CHECKING:
    from httpx2 import URL


Address = IPv4Address | IPv6Address
AddressRange = IPv4Network | IPv6Network

SPECIAL = (
    ("0.0.0.0/8", "this host's"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared within a provider's network"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "a cloud's own"),
    ("169.254.0.0/16", "link-local, where clouds answer with credentials"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "this host's"),
    ("::1/128", "loopback"),
    ("64:ff9b:1::/48", "local to a translator"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "for documentation"),
    ("3fff::/20", "for documentation"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)
_GLOBAL = IPv6Network("2000::/3")
_MAPPED, _TRANSLATED, _6TO4 = IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16")


def special_use(address: Address) -> str:
    """Why an address is not public; empty if it is."""
    address = embedded_ipv4(address)
    for network, what in _special():
        if address.version == network.version and address in network:
            return what
    return "" if isinstance(address, IPv4Address) or address in _GLOBAL else "reserved"


def embedded_ipv4(address: Address) -> Address:
    """The IPv4 address inside of an IPv6 one (mapped, of a translator, 6to4), where packets for that end up; else the address."""
    if isinstance(address, IPv4Address):
        return address
    if address in _MAPPED or address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return IPv4Address(int(address) >> 80 & 0xFFFF_FFFF) if address in _6TO4 else address


@cache
def _special() -> list[tuple[AddressRange, str]]:
    return [(ip_network(network), what) for network, what in SPECIAL]


class ReachableAddresses(NamedTuple):
    """Addresses that may be reached although they are not public: `networks` and `names`, each at one port or at all (None)."""

    everything: bool
    networks: tuple[tuple[AddressRange, int | None], ...]
    names: frozenset[tuple[str, int | None]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> ReachableAddresses:
        """The reach that a deployment allows: ``*``, names, addresses, networks; a name or an address with a port as well, that of IPv6 in brackets.

        Raises:
            BadValue: one is none of these.
        """
        networks, names, everything = list[tuple[AddressRange, int | None]](), set[tuple[str, int | None]](), False
        for text in texts:
            if text == "*":
                everything = True
                continue
            host, port = _parted(text)
            network = _network(host)
            if network is not None:
                networks.append((network, port))
            elif name := _name(host):
                names.add((name, port))
            else:
                raise BadValue("allow", f"http:{text}", "a name, an address, a network such as 10.0.0.0/8, or one of the first two with :port behind it")
        return cls(everything, tuple(networks), frozenset(names))

    def allows(self, host: str, port: int, address: Address) -> bool:
        """Whether the address of a host may be reached at a port."""
        if self.everything or not special_use(address) or not self.names.isdisjoint({(host, port), (host, None)}):
            return True
        inside = embedded_ipv4(address)
        return any(at in (port, None) and inside.version == network.version and inside in network for network, at in self.networks)


def _parted(text: str) -> tuple[str, int | None]:
    """A host and its port, if it has one."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")) or not (port.isascii() and port.isdecimal()):
        host, port = text, ""
    return host.removeprefix("[").removesuffix("]") if ":" in host else host, int(port) if port else None


def _name(text: str) -> str:
    """The normalized name of a host; empty if it is invalid."""
    try:
        name = text.lower().rstrip(".").encode("idna").decode("ascii")
    except UnicodeError:
        return ""
    return "" if set(name) & set("/:[]@?# *") else name


def _network(text: str) -> AddressRange | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def literal_address(host: str) -> Address | None:
    """The address that a host is, if it is no name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
PORTS = {"http": 80, "https": 443}


class UrlError(ValueError):
    """A text is not a URL that a request may use; the message says why."""


def parse_target(text: str, base: URL | None = None) -> URL:
    """Parses a URL, relative to `base` if given, with a normalized host. Drops the fragment.

    Raises:
        UrlError: it is not a URL of HTTP, or has parts that a request must not have.
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
        raise UrlError(f"it is not a URL: {error}" if isinstance(error, InvalidURL) else "it is not a URL") from None
    if scheme not in PORTS:
        raise UrlError(f"a URL begins with http:// or https://, not with {scheme}:" if scheme else "a URL begins with http:// or https://")
    if has_user:
        raise UrlError("a URL has no user and password in it; send them in a header, as a secret")
    if why := host_error(host):
        raise UrlError(why)
    if port is not None and not 0 < port < 65_536:
        raise UrlError("a port is a number from 1 to 65535")
    return url


def host_error(host: str) -> str:
    """Returns why a host is refused: it has characters that names can't have, or is a number that some systems read as an address."""
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


def url_origin(url: URL) -> tuple[str, str, int]:
    """The origin of a URL: scheme, host and port."""
    return url.scheme, url.raw_host.decode("ascii"), url.port or PORTS[url.scheme]


def displayed_url(url: URL, whole: bool = True) -> str:
    """A URL for messages: without its query, or only its origin if it may hold a secret."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii').partition('?')[0] if whole else '/…'}"

"""Claims about addresses: which are everybody's, and which a deployment allows."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadValue
from perdure.definitions.kinds.http.http_targets import ReachableAddresses, embedded_ipv4, special_use

PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.63.255.255", "100.128.0.0", "223.255.255.255", "192.167.255.255"]
PUBLIC_6 = ["2606:4700::1", "2a00:1450::1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
OURS = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254",
    "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255",
]  # fmt: skip
OURS_6 = [
    "::", "::1", "fd00:ec2::254", "fc00::1", "fe80::1", "fec0::1", "ff02::1", "2001:db8::1", "2001::1", "3fff::1", "64:ff9b:1::1", "100::1", "5f00::1",
    "4000::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
    "2002:a9fe:a9fe::1", "2002:a00:1::1",
]  # fmt: skip


@pytest.mark.parametrize("address", [*PUBLIC, *PUBLIC_6])
def test_a_public_address_is_everybodys(address: str) -> None:
    assert special_use(ip_address(address)) == ""
    assert ReachableAddresses.of([]).allows("x.example", 443, ip_address(address))


@pytest.mark.parametrize("address", [*OURS, *OURS_6])
def test_no_other_address_is_but_where_a_deployment_allows_it(address: str) -> None:
    found = ip_address(address)
    assert special_use(found)
    assert not ReachableAddresses.of([]).allows("x.example", 443, found) and not ReachableAddresses.of(["y.example", "x.example:80", "1.2.3.4"]).allows(
        "x.example", 443, found
    )
    for allowed in ("*", "x.example", "X.example.:443", str(embedded_ipv4(found))):
        assert ReachableAddresses.of([allowed]).allows("x.example", 443, found), allowed


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_an_address_inside_of_another_is_what_it_is_alone(address: IPv4Address) -> None:
    number, alone = int(address), special_use(address)
    for outer in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80 | 5):
        assert special_use(IPv6Address(outer)) == alone


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_what_python_knows_to_be_private_is_not_everybodys(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert special_use(address)


@settings(deadline=None)
@given(st.ip_addresses(v=6))
def test_of_ipv6_only_global_unicast_is_everybodys(address: IPv6Address) -> None:
    if embedded_ipv4(address) is address and (not address.is_global or int(address) >> 125 != 1):
        assert special_use(address)


@pytest.mark.parametrize(
    ("allowed", "host", "port", "address", "may"),
    [
        ("10.0.0.0/8", "db.example", 5432, "10.1.2.3", True),
        ("10.0.0.0/8", "db.example", 5432, "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "db.example", 5432, "192.168.0.1", False),
        ("10.0.0.5:8080", "db.example", 8080, "10.0.0.5", True),
        ("10.0.0.5:8080", "db.example", 8081, "10.0.0.5", False),
        ("[::1]:8080", "::1", 8080, "::1", True),
        ("[::1]:8080", "::1", 80, "::1", False),
        ("::1", "::1", 80, "::1", True),
        ("fd00::/8", "x.example", 80, "fd12::1", True),
        ("localhost", "localhost", 80, "127.0.0.1", True),
        ("localhost", "localhost.example", 80, "127.0.0.1", False),
        ("müller.example", "xn--mller-kva.example", 80, "10.0.0.1", True),
    ],
)
def test_what_is_allowed_is_a_name_an_address_or_a_network_perhaps_at_a_port(allowed: str, host: str, port: int, address: str, may: bool) -> None:
    assert ReachableAddresses.of([allowed]).allows(host, port, ip_address(address)) is may


@pytest.mark.parametrize("wrong", ["", "http://x", "10.0.0.1/8", "a b", "x/y", "*.example", "user@x"])
def test_what_is_none_of_these_is_an_error(wrong: str) -> None:
    with pytest.raises(BadValue, match=r"10\.0\.0\.0/8"):
        ReachableAddresses.of([wrong])

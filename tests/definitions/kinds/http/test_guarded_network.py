"""Claims about the network: whatever a name says, and whenever, nothing is connected to that may not be reached; and nothing is left behind."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import httpcore2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from perdure.core.errors import Fatal
from perdure.definitions.kinds.http import guarded_network
from perdure.definitions.kinds.http.http_errors import AddressRefused, NoResponse, ResponseRefused
from perdure.definitions.kinds.http.http_targets import ReachableAddresses
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer, Wire, never, redirect, reply
from tests.definitions.kinds.http.request_sender import RequestSender, calling, names


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost", "0.0.0.0", "[::]"])
async def test_nothing_private_is_reached_unless_it_is_allowed(server: MisbehavingServer, host: str) -> None:
    server.on("/a", reply("reached"))
    async with calling() as caller:
        with pytest.raises(AddressRefused, match="not allowed here; who runs the engine can allow http:"):
            await caller(server.url("/a", host))
    assert issubclass(AddressRefused, Fatal) and server.connections == 0


@pytest.mark.parametrize("allowed", ["*", "127.0.0.0/8", "127.0.0.1", "127.0.0.1:PORT", "one.example", "one.example:PORT"])
async def test_what_is_allowed_is_reached(server: MisbehavingServer, allowed: str) -> None:
    server.on("/a", reply("reached"))
    names({"one.example": ["127.0.0.1"]})
    async with calling(allowed.replace("PORT", str(server.port))) as caller:
        assert (await caller(server.url("/a", "one.example")))["body"] == "reached"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "100.100.100.200", "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a00:1::"]
)
async def test_a_name_is_refused_if_one_of_its_addresses_is(address: str) -> None:
    asked = names({"x.example": ["93.184.216.34", address]})
    async with calling() as caller:
        with pytest.raises(AddressRefused, match=r"x\.example leads to an address that is not allowed here") as refused:
            await caller("http://x.example/")
        assert address not in str(refused.value), "what an internal name resolves to is not told"
    assert asked == ["x.example"]


async def test_a_name_that_leads_elsewhere_a_moment_later_is_connected_to_where_it_was_checked(server: MisbehavingServer) -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"], ["169.254.169.254"]])
    asked = names(lambda _: next(answers))
    server.on("/a", reply("reached", headers={"Connection": "close"}))
    async with calling("127.0.0.1") as caller:
        assert (await caller(server.url("/a", "rebinds.example")))["body"] == "reached"
        assert asked == ["rebinds.example"]
        with pytest.raises(AddressRefused, match=r"rebinds\.example leads to an address that is not allowed here"):
            await caller(server.url("/a", "rebinds.example"))
    assert server.connections == 1


async def test_a_redirect_to_what_may_not_be_reached_is_refused(server: MisbehavingServer) -> None:
    names({"inside.example": ["10.0.0.1"], "one.example": ["127.0.0.1"]})
    async with calling("one.example") as caller:
        for to in ("http://127.0.0.1:9/", "http://[::ffff:7f00:1]/", "//inside.example/x", "http://169.254.169.254/latest/meta-data/", server.url("/b")):
            server.on("/a", redirect(to))
            with pytest.raises(AddressRefused):
                await caller(server.url("/a", "one.example"))
    assert {seen.path for seen in server.seen} == {"/a"}


async def test_the_next_address_is_tried_when_one_takes_no_connection(server: MisbehavingServer) -> None:
    names({"two.example": ["::1", "127.0.0.1"]})
    server.on("/a", reply("reached"))
    async with calling("two.example") as caller:
        assert (await caller(server.url("/a", "two.example")))["body"] == "reached"


async def test_a_name_that_nobody_knows_is_tried_again(caller: RequestSender) -> None:
    names({})
    with pytest.raises(NoResponse, match=r"no connection: no\.example has no address"):
        await caller("http://no.example/", method="POST", idempotency_key=False)


async def test_no_proxy_and_no_password_file_of_the_environment_is_used(
    server: MisbehavingServer, caller: RequestSender, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ada password hush\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.on("/a", reply("reached"))
    assert (await caller(server.url("/a")))["body"] == "reached" and "authorization" not in server.seen[0].headers


async def test_no_unix_socket_is_connected_to() -> None:
    with pytest.raises(AddressRefused, match="not a host"):
        await guarded_network.GuardedBackend(ReachableAddresses.of(["*"])).connect_unix_socket("/run/docker.sock")


async def test_the_connections_of_an_engine_are_shared_by_what_is_allowed_and_end_with_it(server: MisbehavingServer) -> None:
    server.on("/a", reply("reached"))
    async with calling("127.0.0.1") as caller:
        await caller(server.url("/a"))
        await RequestSender(("127.0.0.1",))(server.url("/a"))
        pool = await caller.pool()
        assert server.connections == 1 and len(pool.connections) == 1
        assert await RequestSender(("*",)).pool() is not pool
    assert pool.connections == []
    async with calling("127.0.0.1") as caller:
        assert await caller.pool() is not pool


# encryption


class Authority:
    """Who vouches for the certificates of a test."""

    def __init__(self, directory: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the test")])
        self.file = directory / "authority.pem"
        self._directory = directory
        self.file.write_bytes(self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None)).public_bytes(serialization.Encoding.PEM))

    def server(self, *addresses: str) -> ssl.SSLContext:
        """What a server that is at these addresses shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        named = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(one)) for one in addresses])
        certificate = self._signed(x509.Name([]), key, x509.BasicConstraints(ca=False, path_length=None), named)
        file = self._directory / "server.pem"
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType) -> x509.Certificate:
        now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        made = x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
        for extension in extensions:
            made = made.add_extension(extension, critical=not name.rdns)
        own, whose = x509.SubjectKeyIdentifier.from_public_key(key.public_key()), x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        usage = x509.KeyUsage(True, False, False, False, False, name == self._name, name == self._name, False, False)
        return made.add_extension(own, False).add_extension(whose, False).add_extension(usage, True).sign(self._key, hashes.SHA256())


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    return made


@pytest.mark.slow
async def test_bytes_behind_an_encrypted_answer_are_not_taken_for_the_next_answer(authority: Authority) -> None:
    async with MisbehavingServer(authority.server("127.0.0.1")) as server, calling("*") as caller:
        first, second = reply("first", headers={"Content-Type": "text/plain"}), reply("second", headers={"Content-Type": "text/plain"})
        server.on("/a", lambda wire: wire.raw(first, first.replace(b"first", b"forge")))  # a record each, of which the second is not asked for
        server.on("/b", second)
        for _ in range(3):
            assert (await caller(server.url("/a")))["body"] == "first" and (await caller(server.url("/b")))["body"] == "second"
        for _ in range(3):
            await caller(server.url("/b"))
        assert server.connections == 4, "a connection with nothing behind is used again"


async def test_a_server_that_shows_who_it_is_is_believed_and_no_other(authority: Authority) -> None:
    async with MisbehavingServer(authority.server("127.0.0.1")) as right, MisbehavingServer(authority.server("127.0.0.2")) as wrong:
        for server in (right, wrong):
            server.on("/a", reply("reached"))
        async with calling("*") as caller:
            assert (await caller(right.url("/a")))["body"] == "reached"
            with pytest.raises(ResponseRefused, match="certificate is not trusted"):
                await caller(wrong.url("/a"))
    assert wrong.seen == []


async def test_encryption_is_not_given_up_on_the_way(authority: Authority, server: MisbehavingServer) -> None:
    async with MisbehavingServer(authority.server("127.0.0.1")) as encrypted:
        encrypted.on("/a", redirect(server.url("/b")))
        server.on("/b", redirect(encrypted.url("/c")))
        encrypted.on("/c", reply("reached"))
        async with calling("*") as caller:
            with pytest.raises(ResponseRefused, match="without encryption"):
                await caller(encrypted.url("/a"))
            assert server.seen == []
            assert (await caller(server.url("/b")))["url"] == encrypted.url("/c")


async def test_what_is_cancelled_while_it_shakes_hands_leaves_no_connection(server: MisbehavingServer) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        assert await reader.read() != b""
        gone.set()
        writer.close()

    came, gone = asyncio.Event(), asyncio.Event()
    async with await asyncio.start_server(mute, "127.0.0.1", 0) as listening, calling("*") as caller:
        step = asyncio.create_task(caller(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"))
        await came.wait()
        await asyncio.sleep(0.02)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await asyncio.wait_for(gone.wait(), 5)
        assert (await caller.pool()).connections == []


@pytest.mark.slow
async def test_what_is_cancelled_at_any_moment_leaves_no_connection_but_those_that_wait(server: MisbehavingServer, caller: RequestSender) -> None:
    async def slowly(wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"a", b"b", b"c", every_s=0.002)

    server.on("/a", slowly)
    for number in range(60):
        step = asyncio.create_task(caller(server.url("/a")))
        await asyncio.sleep(number * 0.0003)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
    pool = await caller.pool()
    assert all(connection.is_idle() for connection in pool.connections), pool.connections
    assert (await caller(server.url("/a")))["body"] == "abc"


@pytest.mark.slow
async def test_a_full_house_keeps_nobody_waiting_for_longer_than_the_time(server: MisbehavingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_network, "CONNECTIONS_MAX", 2)
    server.on("/a", never)
    async with calling("127.0.0.0/8") as caller:
        found = await asyncio.gather(*(caller(server.url("/a"), timeout_s=0.2) for _ in range(5)), return_exceptions=True)
        assert [type(one) for one in found] == [NoResponse] * 5 and len(server.seen) == 2
        assert isinstance(await caller.pool(), httpcore2.AsyncConnectionPool) and (await caller.pool()).connections == []

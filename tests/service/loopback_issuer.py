"""An OIDC issuer on this machine: discovery, keys, the authorization and the token endpoint, with keys that are rotated as a test says."""

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

RSA_KEYS = [rsa.generate_private_key(65537, 2048) for _ in range(2)]
CLIENT_ID, CLIENT_SECRET = "perdure-console", "s3cret: of the/client"
NOW_S = 1_000_000_000.0
REDIRECT_URI = "https://perdure.example.com/callback"


class LoopbackIssuer:
    """An issuer that publishes `published`, and signs with any of its keys."""

    def __init__(self, url: str) -> None:
        self.url, self.redirect_uri = url, REDIRECT_URI
        self.keys: dict[str, tuple[str, Any]] = {
            "rsa": ("RS256", RSA_KEYS[0]),
            "rsa-next": ("RS256", RSA_KEYS[1]),
            "ec": ("ES256", ec.generate_private_key(ec.SECP256R1())),
            "ed": ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
        }
        self.published = ["rsa", "ec", "ed"]
        self.more_keys: list[dict[str, Any]] = []
        self.status, self.issuer_name, self.requests = 200, url, list[str]()
        self.codes: dict[str, dict[str, str]] = {}
        self.identity: dict[str, Any] = {"sub": "u1", "email": "ada@example.com", "email_verified": True, "groups": ["ops"]}

    def token(self, kid: str = "rsa", headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token as the issuer makes them; claims that are None are left out."""
        algorithm, key = self.keys[kid]
        return jwt.encode(self.claims(**claims), key, algorithm, {"kid": kid, **(headers or {})})

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a token."""
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": NOW_S, "exp": NOW_S + 300, **self.identity, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def public_pem(self, kid: str) -> bytes:
        """The public key as text, which some have mistaken for a secret of HMAC."""
        return bytes(self.keys[kid][1].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))

    def answer(self, path: str, body: str, authorization: str) -> tuple[int, dict[str, Any] | str]:
        """The status, and the JSON or the place that the browser is sent to."""
        parts = urlsplit(path)
        self.requests.append(parts.path)
        if self.status != 200:
            return self.status, {}
        match parts.path:
            case "/.well-known/openid-configuration":
                places = {"jwks_uri": "jwks", "authorization_endpoint": "authorize", "token_endpoint": "token"}
                return 200, {"issuer": self.issuer_name, "more": [1], **{name: f"{self.url}/{place}" for name, place in places.items()}}
            case "/jwks":
                return 200, {"keys": [*self.more_keys, *map(self._jwk, self.published)]}
            case "/authorize":
                return self._authorized({name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()})
            case "/token":
                return self._exchanged({name: values[0] for name, values in parse_qs(body, strict_parsing=True).items()}, authorization)
        return 404, {}

    def _jwk(self, kid: str) -> dict[str, Any]:
        algorithm, key = self.keys[kid]
        form = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}[algorithm]
        found: dict[str, Any] = form.to_jwk(key.public_key(), as_dict=True)  # type: ignore[attr-defined]  # all three have it
        return {**found, "kid": kid, "use": "sig"}

    def _authorized(self, asked: dict[str, str]) -> tuple[int, str]:
        assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == ("code", CLIENT_ID, "S256")
        assert asked["redirect_uri"] == self.redirect_uri and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe()
        self.codes[code] = asked
        return 302, f"{self.redirect_uri}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.url})}"

    def _exchanged(self, given: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(given["code"], None)
        verifier = base64.urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest()).decode().rstrip("=")
        if (
            asked is None
            or verifier != asked["code_challenge"]
            or given["redirect_uri"] != asked["redirect_uri"]
            or given["grant_type"] != "authorization_code"
        ):
            return 400, {"error": "invalid_grant", "error_description": "the code is not valid"}
        wanted = base64.b64encode(f"{CLIENT_ID}:s3cret%3A+of+the%2Fclient".encode()).decode()
        if authorization != f"Basic {wanted}" and given.get("client_id") != CLIENT_ID:
            return 401, {"error": "invalid_client"}
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.token(nonce=asked["nonce"])}


@contextmanager
def loopback_issuer() -> Iterator[LoopbackIssuer]:
    """An issuer that answers until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            status, answer = issuer.answer(self.path, body, self.headers.get("authorization") or "")
            payload = b"" if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            if isinstance(answer, str):
                self.send_header("location", answer)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer = LoopbackIssuer(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        serving.join()

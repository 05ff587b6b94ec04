"""The files in deploy/, each tried with the program that it is for: systemd, nginx, and the commands of the container file."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
import venv
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cli.serve_process import ServeProcess, free_port, new_key, serving
from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"
WAIT_S = 60.0
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def test_the_unit_is_one_of_systemd(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "perdure.service").read_text(encoding="utf-8")
    unit = tmp_path / "perdure.service"
    unit.write_text(text.replace("/opt/perdure/.venv/bin/perdure", shutil.which("true") or "/bin/true").replace("/opt/perdure", str(tmp_path)))
    verified = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("Restart=always", "Restart=sometimes"))
    assert "sometimes" in subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=WAIT_S, check=False).stderr


def test_the_unit_gives_the_process_more_time_to_stop_than_it_takes() -> None:
    text = (DEPLOY / "perdure.service").read_text(encoding="utf-8")
    grace, stop = re.search(r"--grace (\d+)s", text), re.search(r"TimeoutStopSec=(\d+)", text)
    assert grace is not None and stop is not None and int(grace[1]) + 10 <= int(stop[1])


@contextmanager
def proxied(directory: Path, server: ServeProcess) -> Iterator[str]:
    """nginx, as deploy/nginx.conf sets it up, before a server; yields its URL. Only names, ports and files are those of the test."""
    assert NGINX is not None
    port, inner = free_port(), server.url.rpartition(":")[2].partition("/")[0]
    certificate, key = directory / "fullchain.pem", directory / "privkey.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], capture_output=True, timeout=WAIT_S, check=True)
    block = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for shown, stands in {
        "127.0.0.1:7788": f"127.0.0.1:{inner}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "perdure.example.com": "localhost",
        "/etc/perdure/tls/fullchain.pem": str(certificate),
        "/etc/perdure/tls/privkey.pem": str(key),
    }.items():
        assert shown in block
        block = block.replace(shown, stands)
    temporary = "".join(f"{kind}_temp_path {directory}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    main = f"daemon off; user {'root' if os.getuid() == 0 else 'nobody'}; pid {directory}/nginx.pid; error_log {directory}/nginx.log; worker_processes 1;\n"
    config = directory / "nginx.conf"
    config.write_text(f"{main}events {{}}\nhttp {{ access_log off; {temporary}\n{block}\n}}\n")
    process = subprocess.Popen([NGINX, "-c", str(config), "-e", str(directory / "nginx.log")], stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + WAIT_S
        while not accepts(port):
            assert process.poll() is None and time.monotonic() < until_s, (directory / "nginx.log").read_text()
            time.sleep(0.05)
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait(WAIT_S)


def accepts(port: int) -> bool:
    """Is true if something listens on a port."""
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.real
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_publishes_a_server_under_a_prefix_with_tls_and_streams(tmp_path: Path) -> None:
    key = new_key(tmp_path)
    with (
        serving(tmp_path, "--root-path", "/perdure", "--forwarded-allow-ips", "127.0.0.1") as server,
        proxied(tmp_path, server) as url,
    ):
        server.url = f"{url}/perdure"
        trusted = ssl.create_default_context(cafile=str(tmp_path / "fullchain.pem"))
        started = server.request("POST", "/api/executions", {"workflow": "order", "id": "a/b ü", "input": {"order_id": "Ada"}}, key, context=trusted)
        assert started.status == 201, started
        result = server.request("GET", "/api/executions/order/a%2Fb%20%C3%BC/result?waitSeconds=20", key=key, context=trusted)
        assert (result.status, result.json["isThere"]) == (200, True), result
        large = server.request("POST", "/api/executions", {"workflow": "order", "id": "large", "input": {"order_id": "x" * 3_000_000}}, key, context=trusted)
        assert large.status == 201, large
        events = server.request("GET", "/api/executions/order/a%2Fb%20%C3%BC/events", key=key, headers={"Accept": "text/event-stream"}, context=trusted)
        assert events.body.decode().count("event: ") >= 3 and "event: execution.completed" in events.body.decode()
        audit = server.request("POST", "/api/keys", {"name": "made", "roles": ["viewer"]}, key, context=trusted)
        assert audit.status == 200, audit
        entry = server.request("GET", "/api/audit?operation=access.create_key&limit=1", key=key, context=trusted).json["items"][0]["entry"]
        assert entry["address"] == "127.0.0.1"
        assert server.request("GET", "/api/executions", context=trusted).status == 401


def instructions(name: str) -> list[str]:
    """The values of an instruction of the container file, in their order."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.partition(" ")[2].strip() for line in text.splitlines() if line.startswith(f"{name} ")]


@pytest.mark.real
def test_the_commands_of_the_container_file_give_a_server_that_is_ready(tmp_path: Path) -> None:
    """They are run in an empty environment in place of the image of Python, on a copy of the checkout; users and directories are not made."""
    build, install, user = instructions("RUN")
    assert user.startswith("useradd ") and instructions("USER") == ["10001"]
    assert "install --directory --owner=perdure --mode=0700 /data" in user, "a volume there belongs to the user, and not to root"
    python = tmp_path / "python"
    venv.create(python, with_pip=True)
    bin = python / "bin"
    shutil.copytree(ROOT, tmp_path / "source", ignore=shutil.ignore_patterns(".*", "__pycache__", "tests", "shared"))
    (tmp_path / "app").mkdir()
    environment = {"PATH": f"{bin}:/usr/bin:/bin", "HOME": str(tmp_path), "PERDURE_DB": f"sqlite:///{tmp_path}/app/perdure.db"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}

    def run(script: str) -> str:
        for path in ("/wheels", "/source"):
            script = script.replace(path, f"{tmp_path}{path}")
        ended = subprocess.run(["sh", "-ec", script], cwd=tmp_path / "app", env=environment, capture_output=True, text=True, timeout=500, check=False)
        assert ended.returncode == 0, f"{script}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    run(build)
    run(install)
    assert not (tmp_path / "wheels").exists()
    key = run("perdure keys create first --admin").strip()
    assert key.startswith("prd_")
    (entry,) = instructions("ENTRYPOINT")
    words = [*re.findall(r'"([^"]*)"', entry), str(ROOT / "tests/cli/served_flows.py")]
    port = free_port()
    words[words.index("0.0.0.0:7788")] = f"127.0.0.1:{port}"
    process = subprocess.Popen([str(bin / words[0]), *words[1:]], cwd=tmp_path / "app", env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"http://127.0.0.1:{port}"
        (health,) = instructions("HEALTHCHECK")
        run(health.partition("CMD ")[2].replace("7788", str(port)))
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0
        if process.stdout is not None:
            process.stdout.close()

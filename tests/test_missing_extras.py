"""A package that is not installed is named where it is first needed, with the command that installs the extra."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HIDE = """
import importlib.machinery, sys
hidden = set(sys.argv[1].split(","))
find_spec = importlib.machinery.PathFinder.find_spec
def without(name, path=None, target=None):
    return None if name.split(".")[0] in hidden else find_spec(name, path, target)
importlib.machinery.PathFinder.find_spec = without
for name in [one for one in sys.modules if one.split(".")[0] in hidden]:
    del sys.modules[name]
exec(sys.argv[2])
"""
"""A process in which packages are not installed, as far as imports can tell: an import and `find_spec` find none."""

DEFINITION = "from perdure import Definition; Definition.of({{'perdure': 1, 'name': 'x', 'steps': [{step}]}}, tools={{}}).run()"
COMMAND = "import sys; sys.argv = ['perdure', {words}]; from perdure.cli import main; main()"

WAYS = {
    "cli": ("click,rich", COMMAND.format(words="'ls'")),
    "crypto": ("cryptography", "from perdure import Encrypted; Encrypted({'k': b'0' * 32})"),
    "definitions": ("ruamel", "from perdure import Definition; Definition.of('perdure: 1\\nname: x\\nsteps: []')"),
    "definitions-schema": ("jsonschema_rs", "from perdure.definitions.expr.json_schema import compile_schema; compile_schema({'type': 'string'})"),
    "http": ("httpx2", DEFINITION.format(step="{'id': 'a', 'http': {'url': 'https://example.com/'}}")),
    "agents": ("pydantic_ai", "import perdure.pydantic_ai"),
    "langgraph": ("langgraph", "import perdure.langgraph"),
    "mcp": ("fastmcp", "from perdure.mcp import mcp_tools; mcp_tools({'mcpServers': {'x': {'command': 'x'}}})"),
    "sandbox": ("quickjs,pydantic_monty", DEFINITION.format(step="{'id': 'a', 'ts': 'export default function (input) { return 1 }'}")),
    "serve": ("uvicorn,httptools", COMMAND.format(words="'worker', '--listen', '127.0.0.1:0', '--queue', 'q'")),
    "sync": (
        "greenlet",
        "from perdure import workflow, SyncContext\n@workflow\ndef plain(ctx: SyncContext) -> str: return 'x'\nplain.run()",
    ),
    "metrics": ("prometheus_client", "from perdure.observe.observation import observation_of; observation_of({'metrics_listen': '0'})"),
    "otel": ("opentelemetry", "from perdure.observe.observation import observation_of; observation_of({'otel': True})"),
    "oidc": ("jwt", "from perdure.service.issuer_keys import IssuerKeys; IssuerKeys('https://id.example.com', None, None)"),
    "postgres": ("asyncpg", "from perdure.stores.postgres.store import PostgresStore; PostgresStore('postgresql:///x')"),
    "redis": ("redis", "from perdure.stores.redis import RedisStore; RedisStore('redis:///')"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_extra_is_named_with_its_command(way: str, tmp_path: Path) -> None:
    packages, code = WAYS[way]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE")}
    command = [sys.executable, "-c", HIDE, packages, code]
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode != 0, said.stdout
    assert f'pip install "perdure[{way.partition("-")[0]}]"' in said.stderr, said.stderr


def test_the_core_needs_no_extra(tmp_path: Path) -> None:
    packages = ",".join(packages for packages, _ in WAYS.values())
    code = (
        "from perdure import Context, step, workflow\nimport perdure.testing\n"
        "@step\ndef greeting() -> str: return 'Hello'\n@workflow\nasync def greet(ctx: Context) -> str: return await ctx.step(greeting)\nprint(greet.run())"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE")}
    said = subprocess.run([sys.executable, "-c", HIDE, packages, code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stdout) == (0, "Hello\n"), said.stderr

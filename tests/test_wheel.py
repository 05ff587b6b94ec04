"""The wheel, installed into an empty environment of each Python here, runs the hello of the README, and tests where pytest is all there is beside it."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.console.browsers import expect_built, opened_page, running_browser, sign_in_by_key
from tools.bill_of_materials import npm_components

ROOT = Path(__file__).parent.parent
RUNNING = sys.version_info.minor
# What pip says when it was not answered, as against answered with something that doesn't work.
NO_INDEX = re.compile(r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|Failed to establish|Network is unreachable")


def candidates() -> dict[int, list[Path]]:
    """By minor version, from 3.11 on, the commands that could be that Python; shims with nothing behind them included."""
    directories = [Path(directory) for directory in os.environ.get("PATH", "").split(os.pathsep) if directory]
    found: dict[int, list[Path]] = {RUNNING: [Path(sys.executable)]}
    for directory in [*directories, *sorted(Path.home().glob(".pyenv/versions/*/bin"))]:
        for command in sorted(directory.glob("python3.1[1-9]")):
            found.setdefault(int(command.name.removeprefix("python3.")), []).append(command)
    return found


CANDIDATES = candidates()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as a release is, with the tools that are installed here."""
    directory = tmp_path_factory.mktemp("dist")
    succeed([sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, ROOT], directory)
    (built,) = directory.glob("*.whl")
    return built


@pytest.mark.prove
@pytest.mark.parametrize("minor", [pytest.param(minor, id=f"3.{minor}", marks=[] if minor == RUNNING else [pytest.mark.prove]) for minor in sorted(CANDIDATES)])
def test_the_installed_wheel_runs_a_step_once_ever(minor: int, wheel: Path, tmp_path: Path) -> None:
    python = environment(minor, tmp_path / "env")
    install(python, wheel)
    assert list((tmp_path / "env").glob("lib/*/site-packages/perdure/py.typed")) != []
    hello = first_snippet(ROOT / "README.md")
    assert run(python, hello, tmp_path) == "Hello Ada\n"

    body, call = '    return f"Hello {name}"', 'greet.run("Ada")'
    assert body in hello and call in hello
    leave_a_mark = '    with open("marks", "a") as marks:\n        marks.write(name)\n'
    once = hello.replace(body, leave_a_mark + body).replace(call, 'greet.with_(id="k").run("Ada")')
    assert run(python, once, tmp_path) == "Hello Ada\n"
    assert run(python, once, tmp_path) == "Hello Ada\n"
    assert (tmp_path / "marks").read_text() == "Ada"
    assert (tmp_path / ".perdure/perdure.db").is_file()


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src/perdure"
    expected = {path.relative_to(ROOT / "src").as_posix() for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert expected - set(ZipFile(wheel).namelist()) == set()


@pytest.mark.prove
def test_the_installed_wheel_serves_the_console_without_node(wheel: Path, tmp_path: Path) -> None:
    expect_built()
    python = environment(RUNNING, tmp_path / "env")
    install(python, f"{wheel}[cli,serve]")
    key = succeed([python, "-m", "perdure.cli", "keys", "create", "root", "--admin"], tmp_path).strip()
    variables = {"PATH": str(python.parent), "HOME": str(tmp_path)}
    command: list[str | Path] = [python, "-W", "error", "-m", "perdure.cli", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            asyncio.run(see_the_console(server.stdout.readline().strip(), key))
        finally:
            server.terminate()
            server.wait(60)


async def see_the_console(url: str, key: str) -> None:
    """Signs in with a browser, and looks for what the console shows at first."""
    async with running_browser() as browser, opened_page(browser) as watched:
        await sign_in_by_key(watched.page, url, key)
        await watched.page.wait_for_selector("h1")
        assert await watched.page.title() and not watched.unexpected, watched.unexpected


def test_the_bill_of_materials_has_what_the_console_consists_of() -> None:
    listed = {one["name"]: one for one in npm_components(json.loads((ROOT / "console/package-lock.json").read_text()))}
    assert {"react", "react-dom", "@xyflow/react", "yaml"} <= listed.keys() and not {"vite", "typescript", "axe-core"} & listed.keys()
    assert listed["@xyflow/react"]["purl"].startswith("pkg:npm/%40xyflow/react@") and listed["react"]["licenses"] == [{"license": {"id": "MIT"}}]


@pytest.mark.prove
def test_the_installed_wheel_with_its_command_plays_the_demo_and_writes_a_project(wheel: Path, tmp_path: Path) -> None:
    python = environment(RUNNING, tmp_path / "env")
    install(python, f"{wheel}[cli]")
    said = succeed([python, "-W", "error", "-m", "perdure.cli", "demo"], tmp_path)
    assert said.count("kill -9") == 3 and "All of it was true" in said
    succeed([python, "-m", "perdure.cli", "init", "shop"], tmp_path)
    printed = succeed([python, "orders.py", "o1", "4900"], tmp_path / "shop").splitlines()
    assert [printed[0], printed[-1]] == ["reserving the goods of o1", "o1 is on its way"]


@pytest.mark.prove
def test_the_installed_wheel_brings_the_pytest_plugin(wheel: Path, tmp_path: Path) -> None:
    python = environment(RUNNING, tmp_path / "env")
    install(python, wheel, "pytest")
    shop, test, *_ = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guides/testing.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "shop.py").write_text(shop, encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(test, encoding="utf-8")
    said = succeed([python, "-W", "error", "-m", "pytest", "-W", "error", "--strict-markers", "--perdure-crash-at=every", "-rP", "test_shop.py"], tmp_path)
    assert "1 passed" in said and "killed at 12 moments" in said and re.search(r"plugins: .*perdure-", said), said


def environment(minor: int, directory: Path) -> Path:
    """The python of a new environment with nothing in it, not even pip."""
    for command in CANDIDATES[minor]:
        made = subprocess.run([command, "-m", "venv", "--without-pip", directory], capture_output=True, check=False)
        python = directory / "bin/python"
        if made.returncode == 0 and succeed([python, "-c", "import sys; print(sys.version_info.minor)"], directory) == f"{minor}\n":
            return python
    pytest.skip(f"none of {[str(command) for command in CANDIDATES[minor]]} runs: shims with no Python behind them")


def install(python: Path, wheel: Path | str, *others: str) -> None:
    """Install the wheel and perhaps more, and what they require from the index; skip only when the index gives no answer."""
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--python", python]
    installed = subprocess.run([*pip, "install", wheel, *others], capture_output=True, text=True, check=False)
    output = installed.stdout + installed.stderr
    if installed.returncode and (found := NO_INDEX.search(output)):
        pytest.skip(f"the package index, which has the wheel's dependencies, can't be reached ({found[0]})")
    assert installed.returncode == 0, output
    succeed([*pip, "check"], python.parent)


def first_snippet(page: Path) -> str:
    """The first Python that the page shows."""
    found = re.search(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found, f"{page} shows no Python"
    return found[1]


def run(python: Path, program: str, directory: Path) -> str:
    """What the program prints, run in `directory` by an interpreter that sees neither this checkout nor our settings."""
    (directory / "hello.py").write_text(program, encoding="utf-8")
    return succeed([python, "-W", "error", "hello.py"], directory)


def succeed(command: list[str | Path], directory: Path) -> str:
    """What the command prints, in an environment without Python's variables and our own."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PERDURE", "PYTEST", "COVERAGE"))}
    done = subprocess.run(command, cwd=directory, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout

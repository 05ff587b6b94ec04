"""`perdure init` writes projects that run: the tests of each pass, its commands work, a kill does no harm; and it never replaces what is there unasked."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from perdure import Client
from perdure.cli import project_templates
from perdure.cli.command_list import root
from perdure.cli.exit_codes import ExitCode
from tests.cli.shell import Said
from tests.sampling import some

ROOT = Path(__file__).parents[2]
TEMPLATES = project_templates.template_names()
WAIT_S = 60.0
LEFT_OUT = "-p no:langsmith_plugin -p no:faker"
"""Plugins of pytest that libraries bring along, and that take seconds to import."""


def init(*words: str) -> Said:
    """`perdure init` in this process."""
    result = CliRunner().invoke(root, ["init", *words], prog_name="perdure")
    return Said(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# What it writes, and what it refuses.


def test_there_is_a_template_for_each_way_to_begin() -> None:
    assert TEMPLATES == ["agent", "definition", "django", "fastapi", "script"]


def test_it_says_what_it_wrote_and_what_comes_next() -> None:
    said = init("shop")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0] == f"5 files of the project shop are written to {Path.cwd()}/shop:"
    assert said.out.splitlines()[-4:] == ["  cd shop", '  pip install -e ".[test]"', "  pytest", "  python orders.py o1 4900"]
    assert sorted(one.name for one in Path("shop").iterdir()) == [".gitignore", "README.md", "orders.py", "pyproject.toml", "test_orders.py"]


@pytest.mark.parametrize("option", [["-o", "json"], ["--json"]])
def test_as_json_it_says_the_same(option: list[str]) -> None:
    said = json.loads(init("shop", "--template", "definition", *option).out)
    assert said["directory"] == str(Path.cwd() / "shop") and (said["name"], said["template"]) == ("shop", "definition")
    assert set(said["written"]) == {"README.md", ".gitignore", "claim.yaml", "claim_tools.py", "test_claim.py", "pyproject.toml"}
    assert said["next"][0] == "cd shop" and said["next"][-1].startswith("perdure run claim.yaml")


def test_in_the_current_directory_nothing_has_to_be_entered() -> None:
    Path("own-notes.txt").write_text("mine")
    said = init()
    assert said.code == 0 and "cd " not in said.out and Path("orders.py").is_file()


def test_files_that_are_there_are_named_and_nothing_is_written() -> None:
    Path("shop").mkdir()
    Path("shop/README.md").write_text("mine")
    Path("shop/orders.py").symlink_to("nowhere")
    said = init("shop")
    assert said.code == ExitCode.INPUT
    assert "nothing was written\n  README.md\n  orders.py\nname another DIR; --force replaces them" in said.err
    assert sorted(one.name for one in Path("shop").iterdir()) == ["README.md", "orders.py"] and Path("shop/README.md").read_text() == "mine"


def test_forced_it_replaces_files_and_links_but_not_what_a_link_points_to() -> None:
    Path("mine").write_text("mine")
    Path("shop").mkdir()
    Path("shop/README.md").write_text("mine")
    Path("shop/orders.py").symlink_to("../mine")
    assert init("shop", "--force").code == 0
    assert Path("shop/README.md").read_text().startswith("# shop\n") and Path("mine").read_text() == "mine" and not Path("shop/orders.py").is_symlink()


def test_run_again_it_writes_only_what_is_missing() -> None:
    assert init("shop").code == 0
    assert "nothing was changed" in init("shop").out
    Path("shop/orders.py").unlink()
    assert json.loads(init("shop", "--json").out)["written"] == ["orders.py"]


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("Größe & Co.", "groe-co"),
        ("日本", "project"),
        ("--", "project"),
        ("django", "django-project"),
        ("Perdure", "perdure-project"),
        ("pytest", "pytest-project"),
        ("a__b..c", "a-b-c"),
        ("new\nline\x1b[31m", "new-line-31m"),
        (f"{'deep/' * 20}shop", "shop"),
    ],
)
def test_the_name_of_the_project_is_valid_whatever_the_directory_is_called(directory: str, name: str) -> None:
    said = init("--template", "django", "--json", "--", directory)
    assert said.code == 0, said.err
    assert json.loads(said.out)["name"] == name
    project = Path(directory, "pyproject.toml").read_text()
    assert f'\nname = "{name}"\n' in project and project_templates.PLACEHOLDER not in project
    again = init("--template", "django", "--", directory)
    assert "\x1b" not in again.out and again.code == 0


def test_the_command_to_enter_it_is_quoted() -> None:
    entered = [json.loads(init("--json", "--", one).out)["next"][0] for one in ("my shop", "-x")]
    assert entered == ["cd 'my shop'", "cd ./-x"]


def test_a_place_that_can_not_be_written_is_named() -> None:
    Path("file").write_text("")
    for place, why in (
        ("file", "is not a directory"),
        ("file/shop", "Not a directory"),
        ("/proc/shop", "No such file or directory"),
        ("x" * 300, "name too long"),
    ):
        said = init(place)
        assert said.code == ExitCode.INPUT and why in said.err and "name a directory" in said.err, said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_named() -> None:
    Path("shop").mkdir(mode=0o500)
    said = init("shop")
    assert said.code == ExitCode.INPUT and "Permission denied\nname a directory that you may write to" in said.err


def test_a_directory_in_place_of_a_file_is_not_replaced_even_if_forced() -> None:
    Path("shop/README.md").mkdir(parents=True)
    said = init("shop", "--force")
    assert said.code == ExitCode.INPUT and "README.md: Is a directory" in said.err


# Each project as its user finds it.


class ProjectDirectory:
    """A project that was just made, and commands in it, with the environment of these tests in place of one that pip has filled."""

    def __init__(self, template: str) -> None:
        assert init("shop", "--template", template).code == 0
        self.place = Path.cwd() / "shop"
        script = self.place.parent / "bin/perdure"
        script.parent.mkdir()
        script.write_text(f"#!{sys.executable}\nfrom perdure.cli import main\nmain()\n")
        script.chmod(0o755)
        bins = f"{script.parent}:{Path(sys.executable).parent}"
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE", "PYTEST", "DJANGO", "MODEL"))}
        self.environment = {**ours, "PATH": f"{bins}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "PYTEST_ADDOPTS": LEFT_OUT}

    def commands(self, number: int = 0) -> list[str]:
        """The commands of a block of the README."""
        blocks: list[str] = re.findall(r"^```sh\n(.*?)^```$", (self.place / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        return blocks[number].splitlines()

    def run(self, command: str, code: int = 0) -> str:
        """What a command prints on both outputs."""
        done = subprocess.run(
            command, shell=True, cwd=self.place, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT_S
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    @contextmanager
    def running(self, command: str) -> Iterator["subprocess.Popen[str]"]:
        """A command that goes on by itself, until the end of the block."""
        with subprocess.Popen(shlex.split(command), cwd=self.place, env=self.environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_tests_of_a_new_project_pass_and_its_code_is_clean(template: str) -> None:
    project = ProjectDirectory(template)
    install, test, *_ = project.commands()
    assert (install, test) == ('pip install -e ".[test]"', "pytest")
    printed = project.run("python -W error::ResourceWarning -m pytest -q -p no:asyncio")
    assert re.search(r"^\d+ passed in", printed, re.MULTILINE), printed
    assert project.run("ruff check --isolated --line-length 160 --select B,E,F,I,UP .").strip() == "All checks passed!"
    assert "nothing found" in project.run("perdure lint")
    ignored = (project.place / ".gitignore").read_text().splitlines()
    left = [one.name for one in project.place.iterdir() if one.name in (".perdure", ".pytest_cache", "__pycache__", "shop.db")]
    assert {f"{one}/" for one in left} <= set(ignored)


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_can_be_installed(template: str) -> None:
    project = ProjectDirectory(template)
    build = "from hatchling.build import build_editable, build_wheel; print(build_wheel('dist'), build_editable('links'))"
    assert "shop-0.1.0-py3-none-any.whl" in project.run(f'python -c "{build}"')
    with ZipFile(project.place / "dist/shop-0.1.0-py3-none-any.whl") as wheel, ZipFile(project.place / "links/shop-0.1.0-py3-none-any.whl") as links:
        code = [one.relative_to(project.place).as_posix() for one in project.place.rglob("*") if one.suffix in (".py", ".yaml")]
        assert {one for one in code if not one.startswith("test_")} - set(wheel.namelist()) <= {"conftest.py", "manage.py"}
        assert str(project.place) in "".join(links.read(one).decode() for one in links.namelist())


@pytest.mark.prove
def test_a_script_that_is_killed_in_its_pause_continues() -> None:
    project = ProjectDirectory("script")
    command = project.commands()[-1]
    with project.running(command) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        assert said == ["reserving the goods of o1\n", "charging 4900 cents for o1 (attempt 1)\n"]
        with Client(f"sqlite:///{project.place}/.perdure/perdure.db") as client:
            until(lambda: client.get("o1").status().status == "waiting")
    assert project.run(command) == "shipping the goods of o1\no1 is on its way\n"
    assert project.run(command) == "o1 is on its way\n"
    for line in project.commands(1):
        assert "o1" in project.run(line)
    assert project.run("python orders.py o2 free", code=1).startswith("usage: python orders.py ORDER CENTS")


@pytest.mark.prove
def test_an_agent_answers_without_a_network_and_asks_once() -> None:
    project = ProjectDirectory("agent")
    first, second = (project.run(project.commands()[-1]) for _ in range(2))
    assert second == "Done: 2 x tea ordered, at 300 cents each.\n"
    assert first.startswith("ordering 2 x tea under ") and first.endswith(second)
    shown = project.run("perdure show @latest")
    assert "price" in shown and "order" in shown and "request" in shown
    refused = project.run("MODEL=openai:gpt-5.2 python assistant.py Coffee", code=1)
    assert "OPENAI_API_KEY" in refused, "the model that MODEL names was to be asked"


@pytest.mark.prove
def test_a_definition_pays_a_small_claim_and_asks_about_a_large_one() -> None:
    project = ProjectDirectory("definition")
    assert project.run(project.commands()[-1]).endswith("paid 500 cents for claim c1\n")
    start, approve, again = project.commands(1)
    assert "perdure approvals shows the question" in project.run(start, code=ExitCode.APPROVAL)
    project.run(approve)
    assert project.run(again).endswith("paid 500000 cents for claim c2\n")
    assert "pay" in project.run("perdure validate claim.yaml && perdure graph claim.yaml && perdure graph c2")


@pytest.mark.slow
@pytest.mark.parametrize("template", some(["fastapi", "django"], 1))
def test_an_order_of_a_web_application_survives_a_kill_of_its_server(template: str) -> None:
    project = ProjectDirectory(template)
    *before, serve = project.commands()[2:]
    for command in before:
        project.run(command)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = f"{serve} {'--noreload' if template == 'django' else '--port'} {port}"
    where = f"http://127.0.0.1:{port}/orders"
    with project.running(server):
        until(lambda: ask("GET", f"{where}/none")[0] == 404)
        assert ask("POST", f"{where}/o1?cents=4900") == (202, {"order": "o1", "created": True})
        until(lambda: ask("GET", f"{where}/o1")[1]["status"] == "waiting")
    with project.running(server):
        until(lambda: ask("GET", f"{where}/o1")[0] == 200)
        assert ask("POST", f"{where}/o1/confirm")[0] == 202
        until(lambda: ask("GET", f"{where}/o1")[1]["status"] == "completed")
    shown = project.run(project.commands(1)[-1])
    assert shown.startswith("order/o1") and "charge" in shown


def ask(method: str, url: str) -> tuple[int, Any]:
    """The status and the body of an answer; status 0 if there is none."""
    try:
        with urlopen(Request(url, method=method), timeout=WAIT_S) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, None
    except (URLError, ConnectionError):
        return 0, None


def until(is_true: Callable[[], bool]) -> None:
    """Waits for something that happens soon."""
    until_s = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < until_s
        time.sleep(0.05)

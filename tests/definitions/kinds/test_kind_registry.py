"""The registry: kinds that packages bring work as Perdure's own do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure import BadDefinition, Definition, Fatal
from perdure.core.errors import BadValue
from perdure.definitions.graph.step_kind import Kind, KindResult
from perdure.definitions.kinds.deployment import Allowed
from perdure.definitions.kinds.kind_registry import OWN_KINDS, KindRegistry
from perdure.testing import World

HERE = Path(__file__).parent
STEPS = """
perdure: 1
name: trip
input: {city: {type: string}}
order: listed
steps:
  - {id: look, task: {type: weather, config: {unit: F}}, with: {city: "@input.city"}, timeout: 5s}
  - {id: say, return: "@{look.city}: @{look.sky} (@{look.unit}, @{look.bash})"}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a package that brings a kind is installed, from its wheel."""
    built, there = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("site")
    wheel = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(HERE.parents[2] / "examples/weather")]
    subprocess.run(wheel, check=True, capture_output=True)
    (file,) = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(there), str(file)], check=True)
    return there


def perdure(site: Path, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": f"{site}:{HERE.parents[2] / 'src'}", "PATH": "/usr/bin:/bin", "HOME": str(directory)}
    command = [sys.executable, "-m", "perdure.cli", *words]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_a_kind_that_a_package_brings_runs_checks_its_config_and_is_shown(site: Path, tmp_path: Path) -> None:
    (tmp_path / "trip.yaml").write_text(STEPS)
    ran = perdure(site, tmp_path, "run", "trip.yaml", "-i", "city=Riga", "--allow", "bash")
    assert (ran.returncode, ran.stdout) == (0, "Riga: rain (F, true)\n"), ran.stderr
    (tmp_path / "wrong.yaml").write_text(STEPS.replace("unit: F", "unit: K"))
    refused = perdure(site, tmp_path, "run", "wrong.yaml", "-i", "city=Riga")
    assert refused.returncode == 10 and "wrong.yaml:7" in refused.stderr and "(look): weather:" in refused.stderr and '"K"' in refused.stderr
    shown = perdure(site, tmp_path, "kinds", "weather", "-o", "json")
    (about,) = json.loads(shown.stdout)
    assert (about["version"], about["by"], about["icon"]) == ("2", "perdure-weather", "cloud")
    assert about["capabilities"] == {"max_fanout": 2} and about["limits"][0]["name"] == "cities"
    misnamed = perdure(site, tmp_path, "kinds", "misnamed")
    assert misnamed.returncode == 10 and "from perdure-weather: 'another_name' is not a Kind called misnamed" in misnamed.stderr
    listed = perdure(site, tmp_path, "kinds")
    assert listed.returncode == 0 and "Weather" in listed.stdout and "another_name" in listed.stderr


def test_a_kind_that_is_given_stands_before_one_of_the_same_name(world: World) -> None:
    given = Kind("weather", lambda config, input: {**input, "sky": "sun", "unit": config["unit"], "bash": "?"})
    assert world.run(Definition.of(STEPS, kinds={"weather": given}), city="Riga") == "Riga: sun (F, ?)"


def test_a_kind_is_tried_again_as_its_steps_say(world: World) -> None:
    tries: list[Any] = []

    def run(config: Any, input: Any) -> None:
        tries.append(config)
        raise ValueError("not yet") if len(tries) < 3 else Fatal("never")

    steps = [{"id": "a", "task": {"type": "weather"}, "retry": {"max": 5, "wait": "1s"}, "on_error": "go_on"}]
    assert world.run(Definition.of({"perdure": 1, "name": "it", "steps": steps}, kinds={"weather": run})) is None
    assert len(tries) == 3


def test_a_check_of_a_kind_is_an_error_where_it_stands() -> None:
    kind = Kind("weather", lambda config, input: None, check=lambda config: iter([("/unit", "no such unit")]))
    with pytest.raises(BadDefinition) as refused:
        Definition.of(STEPS, kinds={"weather": kind})
    (finding,) = refused.value.findings
    assert (finding.code, finding.pointer, finding.line) == ("bad_config", "/steps/0/task/config/unit", 7)


def test_a_kind_that_repairs_answers_is_called_again_with_what_is_wrong(world: World) -> None:
    configs: list[Any] = []

    def guess(config: Any, input: Any) -> Any:
        configs.append(config)
        return KindResult({"sky": "rain" if config.get("repair") else 7}, {"usage": {"looks": 1}})

    steps = [
        {"id": "look", "task": {"type": "oracle", "config": {"city": "@input.city", "schema": {"sky": {"type": "string"}}, "repairs": 2}}},
        {"id": "say", "return": ["@look.sky", "@steps.look.output.meta"]},
    ]
    trip = Definition.of(
        {"perdure": 1, "name": "trip", "order": "listed", "input": {"city": {}}, "steps": steps}, kinds={"oracle": Kind("oracle", guess, repairs_answers=True)}
    )
    assert world.run(trip, city="Riga") == ["rain", {"usage": {"looks": 2}, "repairs": 1}]
    schema = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}
    assert configs[0] == {"city": "Riga", "schema": schema}
    ((answer, wrong),) = (one.values() for one in configs[1]["repair"])
    assert answer == '{"sky":7}' and "at sky" in wrong and configs[1] | {"repair": ()} == configs[0] | {"repair": ()}


def test_a_kind_that_does_not_repair_answers_gets_its_schema_as_it_is_written(world: World) -> None:
    steps = [{"id": "look", "task": {"type": "oracle", "config": {"schema": {"sky": "@input.city"}, "repairs": 2}}}, {"id": "say", "return": "@look"}]
    trip = {"perdure": 1, "name": "trip", "order": "listed", "input": {"city": {}}, "steps": steps}
    assert world.run(Definition.of(trip, kinds={"oracle": lambda config, input: config}), city="Riga") == {"schema": {"sky": "Riga"}, "repairs": 2}


def test_own_kinds_are_called_as_they_are_registered() -> None:
    registry = KindRegistry()
    assert [registry[name].name for name in OWN_KINDS] == list(OWN_KINDS)
    with pytest.raises(KeyError):
        _ = registry["nothing"]


@pytest.mark.parametrize(("words", "allowed"), [(["bash"], Allowed(bash=True)), (["http:10.0.0.0/8,http"], Allowed(http=("10.0.0.0/8", "*"))), ([], Allowed())])
def test_what_is_allowed_is_said_in_words(words: list[str], allowed: Allowed) -> None:
    assert Allowed.of(words) == allowed


@pytest.mark.parametrize("word", ["", "all", "bash:ls"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(BadValue, match="one of bash, http:HOST"):
        Allowed.of([word])

"""The guide to testing shows what runs: each of its examples passes, or fails as it says; and it tells of every option."""

import re
from pathlib import Path

import pytest

from perdure.testing.plugin_settings import WorldSettings
from perdure.testing.runs import RanStep, Run
from perdure.testing.world import World

pytest_plugins = ["pytester"]

GUIDE = (Path(__file__).parents[2] / "docs/guides/testing.md").read_text(encoding="utf-8")
SHOP, FIRST, *OTHERS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
IMPORTS = FIRST.partition("\n\n\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize("snippet", [FIRST, *OTHERS], ids=re.compile(r"def test_(\w+)").findall)
def test_each_example_is_as_it_is_shown(snippet: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(shop=SHOP, test_shop=f"{IMPORTS}\n\n{snippet}")
    result = pytester.runpytest_inprocess("-p", "perdure.testing.plugin", "--strict-markers")
    fails = re.match(r"# fails: (\w+)\n", snippet)
    result.assert_outcomes(passed=0 if fails else snippet.count("\ndef test_") + snippet.startswith("def test_"), failed=1 if fails else 0)
    if fails:
        result.stdout.fnmatch_lines([f"E *{fails[1]}: *"])


def test_the_guide_tells_of_every_setting_and_of_all_that_a_run_has() -> None:
    hidden = {"id", "step", "pass_until", "run_of", "enter", "message_key", "undisturbed", "ran_again", "close", "check", "next_id", "seed_of"}
    shown = {name for kind in (Run, World) for name in vars(kind) if not name.startswith("_")} - hidden
    for name in (*WorldSettings._fields, *RanStep.__struct_fields__[3:], *shown):
        assert re.search(rf"(`|world\.){name}\b|\b{name}=", GUIDE), name

"""What docs/proof.md says is true of the source it names, and its first line says when that is not the present source."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import proof_page, prove
from tools.source_hash import ROOT, source_hash


@pytest.mark.slow
def test_the_first_line_of_the_proof_says_whether_it_is_outdated() -> None:
    page = proof_page.PAGE.read_text(encoding="utf-8")
    first = page.partition("\n")[0]
    assert first == proof_page.true_title(page), "docs/proof.md says something else of src than is so; run make format, which mends the line"


@pytest.mark.slow
def test_a_page_is_outdated_exactly_when_the_source_is_another() -> None:
    proven, present = "0123456789ab", source_hash()
    assert proof_page.true_title(proof_page.title(present, present)) == f"# The proof of src {present}"
    assert proof_page.true_title(proof_page.title(present, proven)) == f"# The proof of src {present}"
    assert proof_page.true_title(proof_page.title(proven, proven)).startswith(f"# Outdated: this proves src {proven}")


@pytest.mark.slow
def test_the_first_line_is_mended_and_the_rest_of_the_page_kept(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    page.write_text("# The proof of src 0123456789ab\n\nrest\n")
    assert proof_page.main(page) == 0
    assert page.read_text() == "# Outdated: this proves src 0123456789ab, which has changed since\n\nrest\n"
    with pytest.raises(ValueError, match="names no hash"):
        proof_page.true_title("# Proof\n")


def test_the_hash_of_the_source_is_the_one_that_git_gives(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    src = tmp_path / "src"
    for name in ("a/__init__.py", "a/b.py", "a-b.py", "a/c/__pycache__/d.pyc", "z.sh"):
        (src / name).parent.mkdir(parents=True, exist_ok=True)
        (src / name).write_text(name)
    (src / "z.sh").chmod(0o755)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("add", "src/a/__init__.py", "src/a/b.py", "src/a-b.py", "src/z.sh")
    tree = git("write-tree")
    assert git("rev-parse", f"{tree}:src")[:12] == source_hash(src)


def test_what_is_left_when_the_time_is_up_are_further_seeds() -> None:
    tests = ["t.py::slow[1]", "t.py::slow[2]", "t.py::slow[3]", "t.py::fast[1]", "t.py::fast[2]", "t.py::alone"]
    seconds = {test: 10.0 if "slow" in test else 1.0 for test in tests}
    assert prove.in_turn(tests, seconds) == ["t.py::slow[1]", "t.py::fast[1]", "t.py::alone", "t.py::fast[2]", "t.py::slow[2]", "t.py::slow[3]"]


def test_a_result_counts_for_its_source_and_its_test_file_only() -> None:
    test = "tests/test_proof.py::a"
    state = prove.State({test: prove.Result(prove.key_of(test, "one"), "passed", 2.0)})
    assert set(prove.known(state, [test], "one")) == {test}
    assert prove.known(state, [test], "another") == {}
    assert prove.expected_s([test, f"{test}[2]", "tests/b.py::b"], state.results) == {test: 2.0, f"{test}[2]": 2.0, "tests/b.py::b": prove.UNKNOWN_S}


def test_the_page_has_what_failed_and_what_is_still_to_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "REPORTS", [("A report", ["-c", "print('so it is')"]), ("Another", ["-c", "raise SystemExit(3)"])])
    tests = [f"tests/test_proof.py::{name}" for name in ("one", "two", "three")]
    key = prove.key_of(tests[0], "0123456789ab")
    results = {
        tests[0]: prove.Result(key, "passed", 60.0, figures=["12 kills"]),
        tests[1]: prove.Result(key, "failed", 6.0),
        tests[2]: prove.Result("old", "passed", 1.0),
    }
    page = prove.page(tests, prove.State(results), "0123456789ab")
    assert page.startswith("# The proof of src 0123456789ab\n")
    assert "of 3 proofs 1 have passed, 1 failed, 0 cannot be run here, and 1 are still to be run" in page
    assert "| `tests/test_proof.py` | 3 | 1 | 1 | 0 | 1.1 |" in page
    assert "- `tests/test_proof.py::two`" in page
    assert "- `one`: 12 kills" in page
    assert "so it is" in page
    assert "FAILED with exit code 3" in page


@pytest.mark.slow
def test_results_are_written_in_order_until_the_time_is_up(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text("import pytest, time\ndef test_a(): time.sleep(0.1)\ndef test_b(): assert False\ndef test_c(): pytest.skip('no')\ndef test_d(): pass\n")
    (tmp_path / "order").write_text(json.dumps([f"test_some.py::test_{name}" for name in "cbad"]))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},  # those of a worker of pytest-xdist
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PERDURE_PROVE_ORDER": str(tmp_path / "order"),
        "PERDURE_PROVE_RESULTS": str(tmp_path / "results"),
        "PERDURE_PROVE_UNTIL": str(time.time() + 60),
    }
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tools.prove_plugin",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
    ]

    def results() -> list[tuple[str, str]]:
        command = [sys.executable, "-m", "pytest", *options, "test_some.py"]
        subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
        lines = (tmp_path / "results").read_text().splitlines() if (tmp_path / "results").exists() else []
        return [(line["test"].rpartition("_")[2], line["outcome"]) for line in map(json.loads, lines)]

    assert results() == [("c", "skipped"), ("b", "failed"), ("a", "passed"), ("d", "passed")]
    (tmp_path / "results").unlink()
    environment["PERDURE_PROVE_UNTIL"] = "0"
    assert results() == []

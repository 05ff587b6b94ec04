"""Types flow through the SDK: mypy and pyright accept what is right, and refuse what is wrong where it is wrong."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PASSES = Path("tests/typing/passes.py")
FAILS = Path("tests/typing/fails.py")

# Per file and line, what the checker says.
Errors = dict[tuple[Path, int], list[str]]


def mypy() -> Errors:
    """What mypy --strict says."""
    output = printed_by(["-m", "mypy", "--strict", "--no-pretty", "--hide-error-context", "--no-error-summary", "--show-absolute-path", PASSES, FAILS])
    found = re.findall(r"^(.+?):(\d+):(?:\d+:)? error: (.*)$", output, re.MULTILINE)
    assert found, output
    return gathered((file, int(line), text) for file, line, text in found)


def pyright() -> Errors:
    """What pyright says; both files ask for its strict mode."""
    output = printed_by(["-m", "pyright", "--outputjson", "--pythonpath", sys.executable, PASSES, FAILS])
    found = json.loads(output)["generalDiagnostics"]
    assert found, output
    return gathered((error["file"], error["range"]["start"]["line"] + 1, error["message"]) for error in found if error["severity"] == "error")


@pytest.mark.prove
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_types_flow(checker: Callable[[], Errors]) -> None:
    marked = {(FAILS, line) for line, text in enumerate((ROOT / FAILS).read_text(encoding="utf-8").splitlines(), 1) if "# wrong: " in text}
    errors = checker()
    unexpected = [f"{file}:{line}: {text}" for (file, line), texts in errors.items() if (file, line) not in marked for text in texts]
    missed = [f"{file}:{line}: not noticed" for file, line in sorted(marked - set(errors))]
    assert not (unexpected or missed), "\n" + "\n".join([*unexpected, *missed])


def gathered(found: Iterator[tuple[str, int, str]]) -> Errors:
    """The errors in our two files, by place; what else a checker looked at on the way is not this test's business."""
    errors: Errors = {}
    for file, line, text in found:
        if (path := Path(os.path.relpath(file, ROOT))) in {PASSES, FAILS}:
            errors.setdefault((path, line), []).append(text)
    return errors


def printed_by(arguments: list[str | Path]) -> str:
    """What a checker prints, run as a module of this Python from the root."""
    variables = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "NO_COLOR": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, f"{arguments}\n{done.stdout}{done.stderr}"
    return done.stdout

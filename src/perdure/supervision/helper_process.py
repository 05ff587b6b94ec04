"""How Perdure starts Python processes of its own, such as supervisors.

A helper imports nothing but the standard library and this package, and sees nothing of the environment: it could hold secrets of the engine.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCE_DIRECTORY = str(Path(__file__).parents[2])

PASSED_ON_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Variables that Python itself may need."""


def helper_command(module: str, function: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command that calls `function(arguments)` of a module of Perdure in a new interpreter."""
    # Perdure's directory is the last of the path: a module beside it must not stand in for one of the standard library.
    program = f"import sys; sys.path.append(sys.argv[1]); from {module} import {function}; {function}(sys.argv[2:])"
    return [sys.executable, "-X", "utf8", "-I", "-S", "-c", program, SOURCE_DIRECTORY, *arguments]


def helper_environment() -> dict[str, str]:
    """The environment of a helper."""
    return {name: os.environ[name] for name in PASSED_ON_VARIABLES if name in os.environ}

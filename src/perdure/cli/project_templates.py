"""The projects that `perdure init` writes: directories of real files, in which only the name of the project is replaced.

Each directory in `templates/` is a template. Its README has, in the first block of commands, what to do next; the same commands are printed and tested.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).with_name("templates")
PLACEHOLDER = "project-name"
"""Stands for the name of the project in the files of a template."""

RENAMED = {"gitignore": ".gitignore"}
"""Files with another name in a template than in a project, because tools would obey them there."""

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Project:
    """A project that is to be written: its name, its files by their path in it, and the commands that come next."""

    name: str
    files: dict[Path, str]
    commands: tuple[str, ...]


def template_names() -> list[str]:
    """The names of all templates."""
    return sorted(one.name for one in TEMPLATES.iterdir() if (one / "README.md").is_file())


def project_of(template: str, directory: Path) -> Project:
    """The project that a template makes in a directory, whose name it gets as far as that is valid."""
    place = TEMPLATES / template
    texts = {one.relative_to(place): one.read_text(encoding="utf-8") for one in sorted(place.rglob("*")) if one.is_file() and "__pycache__" not in one.parts}
    name = project_name(directory.name, _required(texts[Path("pyproject.toml")]))
    files = {path.with_name(RENAMED.get(path.name, path.name)): text.replace(PLACEHOLDER, name) for path, text in texts.items()}
    first = _BLOCK.search(files[Path("README.md")])
    return Project(name, files, tuple(first[1].splitlines()) if first else ())


def _required(pyproject: str) -> set[str]:
    import tomllib  # here, because each command imports this module

    project = tomllib.loads(pyproject)["project"]
    return {found[0].lower() for one in [*project["dependencies"], *project["optional-dependencies"]["test"]] if (found := _PACKAGE.match(one))}


def project_name(text: str, required: set[str]) -> str:
    """A valid name of a Python project, made of any text. It is not one of the packages that the project requires, for pip would take it for that one."""
    import unicodedata

    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "project"
    return f"{name}-project" if name in required else name

"""The prompt of proposal agents: files that can be read and changed, with the kinds of steps filled in as they are in the process.

A folder of a prompt has `prompt.md`, in which ``{{kinds}}`` and ``{{examples}}`` are filled in, and definitions below `examples/`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from perdure.core.errors import BadValue
from perdure.definitions.kinds.kind_descriptions import ToolDescription
from perdure.definitions.kinds.models.untrusted_text import untrusted
from perdure.service.kind_list import ListedStepKind, list_kinds

PROMPT_FOLDER = Path(__file__).with_name("prompt")
"""The folder of the prompt that is used unless another one is named."""

PROMPT_FILE, EXAMPLES = "prompt.md", "examples"
KINDS_MARK, EXAMPLES_MARK = "{{kinds}}", "{{examples}}"

INSTRUCTIONS_CHARACTERS_MAX = 200_000

SNIPPET_CHARACTERS_MAX = 300
"""The length of the example of a kind. The full description is found by its name."""


def read_prompt(folder: Path = PROMPT_FOLDER) -> str:
    """The prompt in a folder, with its examples in it, and without the kinds.

    Raises:
        BadValue: the folder has no `prompt.md`, or a file that is no text in UTF-8; or all is too long.
    """
    try:
        text = (folder / PROMPT_FILE).read_text(encoding="utf-8")
        examples = {file.stem: file.read_text(encoding="utf-8") for file in sorted((folder / EXAMPLES).glob("*.yaml"))}
    except (OSError, UnicodeDecodeError) as error:
        raise BadValue("the prompt folder", str(folder), f"a folder with {PROMPT_FILE}, and definitions below {EXAMPLES}/, in UTF-8: {error}") from error
    shown = "\n\n".join(f"```yaml\n{example.strip()}\n```" for example in examples.values())
    return checked_instructions(text.replace(EXAMPLES_MARK, shown))


def checked_instructions(text: str) -> str:
    """A prompt, if it is not too long.

    Raises:
        BadValue: it is.
    """
    if len(text) > INSTRUCTIONS_CHARACTERS_MAX:
        raise BadValue("instructions", f"{len(text):,} characters", f"at most {INSTRUCTIONS_CHARACTERS_MAX:,}")
    return text


def export_prompt(folder: Path) -> list[Path]:
    """Copies the files of the prompt to a folder, to be changed there; returns them. A file that is there already stays, and is an error.

    Raises:
        BadValue: a file is there already, or can't be written.
    """
    sources = [PROMPT_FOLDER / PROMPT_FILE, *sorted((PROMPT_FOLDER / EXAMPLES).glob("*.yaml"))]
    made = [folder / one.relative_to(PROMPT_FOLDER) for one in sources]
    if taken := [one for one in made if one.exists()]:
        raise BadValue("the prompt folder", str(folder), f"a folder without {taken[0].relative_to(folder)}, which is not overwritten")
    try:
        (folder / EXAMPLES).mkdir(parents=True, exist_ok=True)
        for source, target in zip(sources, made, strict=True):
            target.write_bytes(source.read_bytes())
    except OSError as error:
        raise BadValue("the prompt folder", str(folder), f"a folder that can be written: {error.strerror or error}") from error
    return made


def instructions_of(prompt: str) -> str:
    """A prompt with the kinds of this process filled in. Their modules are loaded for it."""
    return prompt.replace(KINDS_MARK, "\n".join(map(_kind_line, list_kinds().items)))


def _kind_line(kind: ListedStepKind) -> str:
    snippet = json.dumps(kind.snippet, ensure_ascii=False)
    shown = snippet if len(snippet) <= SNIPPET_CHARACTERS_MAX else f"{snippet[:SNIPPET_CHARACTERS_MAX]}…"
    lacks = "" if kind.ready else f" (needs perdure[{kind.extra}], which is not installed here)"
    return f"- `{kind.name}`: {kind.summary}{lacks} {shown}"


class PresentDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The definition that is changed: its slug, the hash of its current version, and its document as text (empty: there is none)."""

    slug: str = ""
    hash: str = ""
    document: str = ""


SHOWN_DOCUMENT_CHARACTERS_MAX = 30_000
"""A longer definition is not in the prompt: the model reads it by lines."""

NAMED_MAX = 100
"""How many tools and workflows the prompt names. All are found by a search."""


def task_text(words: str, present: PresentDefinition, tools: Sequence[ToolDescription], workflows: Mapping[str, str]) -> str:
    """The task: what is asked for; and which tools and workflows there are, and the present definition, in marks that no text closes from within."""
    parts = [f"Change the definition {present.slug!r}." if present.document else "Write a new definition."]
    if present.slug and not present.document:
        parts.append(f"Its name is {present.slug!r}.")
    parts.append(f"What the user asks for:\n\n{words}")
    parts.append(_named("Tools, for the kind `tool`", {one.name: one.summary for one in tools}))
    parts.append(_named("Workflows, for the kind `call`", workflows))
    if len(present.document) > SHOWN_DOCUMENT_CHARACTERS_MAX:
        lines = present.document.count("\n") + 1
        parts.append(f"The present definition has {lines:,} lines and is too long to be shown here. Read it with `read_definition`.")
    elif present.document:
        parts.append(f"The present definition:\n{untrusted(present.document.strip())}")
    return "\n\n".join(parts)


def _named(what: str, known: Mapping[str, str]) -> str:
    if not known:
        return f"{what}: there are none."
    lines = [f"- {name}: {summary[:120]}" if summary else f"- {name}" for name, summary in list(known.items())[:NAMED_MAX]]
    more = f"\n… and {len(known) - NAMED_MAX} more, which look_up finds" if len(known) > NAMED_MAX else ""
    return f"{what}:\n{untrusted(chr(10).join(lines))}{more}"

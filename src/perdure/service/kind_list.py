"""Lists the kinds of steps that definitions may use in this process: Perdure's own verbs and kinds, and those of packages."""

import msgspec

from perdure.core.errors import BadValue
from perdure.definitions.kinds import kind_descriptions
from perdure.definitions.kinds.kind_descriptions import KindDescription
from perdure.definitions.kinds.kind_registry import KindRegistry


class KindList(msgspec.Struct, frozen=True):
    """Descriptions of kinds in order of name, and what was wrong with those of packages that can't be loaded."""

    items: list[KindDescription]
    problems: list[str]


def list_kinds() -> KindList:
    """Describes all kinds. Their modules are loaded for it."""
    registry, found, problems = KindRegistry(), [*kind_descriptions.built_in_verbs().values()], list[str]()
    for name in registry:
        try:
            found.append(kind_descriptions.describe_kind(registry[name]))
        except BadValue as error:
            problems.append(str(error))
    return KindList(sorted(found, key=lambda one: one.name), sorted(problems))

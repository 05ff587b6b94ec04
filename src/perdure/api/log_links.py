"""The address at which a service's logs are read: a template that the console fills in for an execution or a step.

Records of a step and of a workflow name their execution (`perdure.observe.json_logs`), so a log system finds them by its id. Perdure keeps no logs itself.
"""

import re

from perdure.core.errors import BadValue
from perdure.core.header_values import is_http_url

PLACEHOLDERS = ("tenant", "workflow", "id", "path", "from_ms", "to_ms")
"""What a template may have in braces. `path` is that of a step, and empty for an execution; the times are its start and its end, in ms since 1970."""


def checked_logs_url(template: str) -> str:
    """Returns a template; empty if logs are read nowhere.

    Raises:
        BadValue: it is no address, names no execution, or has another placeholder.
    """
    found = set(re.findall(r"\{([^{}]*)\}", template))
    if template and (not is_http_url(re.sub(r"[{}]", "", template)) or "id" not in found or not found <= set(PLACEHOLDERS)):
        names = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise BadValue(
            "--logs-url", template[:200], f"an address that has {{id}} in it, and of {names} no other, such as https://logs.example.com/?q={{workflow}}/{{id}}"
        )
    return template

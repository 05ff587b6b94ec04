"""The command `perdure`. It holds no rules: it calls the client and renders the answers.

`root_command` parses the command line and turns errors into exit codes (`exit_codes`); the modules `*_commands` have the commands; `plain_text` renders data
as text, and `rich_text` does so for terminals. A command imports what it needs when it runs.
"""

import sys

EXTRA = ("click", "rich")
MISSING = 'perdure: the command needs click and rich. Install them: pip install "perdure[cli]"'


def main() -> None:
    """Runs the command line and exits with one of the codes of `exit_codes`."""
    try:
        from perdure.cli.command_list import root

        root.main(prog_name="perdure")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in EXTRA:
            raise
        print(MISSING, file=sys.stderr)  # noqa: T201  # click, which would print it, may be the missing package
        sys.exit(1)
    except KeyboardInterrupt:  # an interruption while modules are imported
        sys.exit(130)

"""The command `perdure`: argv in, text out. It holds no rules; it asks the client, and draws what that says.

`root` reads the command line and turns errors into exit codes (`exits`); `running`, `looking`, `acting`, `upkeep` and `linting`
have the commands; `render` makes text of data and `draw` the same for terminals. What a command needs is imported when it runs.
"""

import sys

EXTRA = ("click", "rich")
MISSING = 'perdure: the command needs click and rich; install them: pip install "perdure[cli]"'


def main() -> None:
    """Run the command line, and exit with one of the codes of `exits`."""
    try:
        from perdure.cli.command_list import root

        root.main(prog_name="perdure")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in EXTRA:
            raise
        print(MISSING, file=sys.stderr)  # noqa: T201  # click, which would write it, may be what is missing
        sys.exit(1)
    except KeyboardInterrupt:  # before there was a command to be interrupted
        sys.exit(130)

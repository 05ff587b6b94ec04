"""`manage.py perdure`: Perdure's command line, within the project."""

import os
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from perdure.cli import EXTRA, MISSING
from perdure.django.apps import app_of_project


class Command(BaseCommand):
    """Runs a command of Perdure with the project set up, on the database of its App: ``manage.py perdure worker``, ``manage.py perdure ls``.

    `worker` runs the App of the project, beside the targets that are named. Everything else is as on the command line `perdure`.
    """

    help = "Runs a command of Perdure on the project's App, such as `worker`, `ls` or `show ID`."

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Passes the arguments on as they are, so that Django takes none of them for its own."""
        self.handle(*argv[2:])

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs the command, and exits with its code.

        Raises:
            CommandError: the extra `cli` is not installed.
        """
        try:
            from perdure.cli.command_list import root
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in EXTRA:
                raise
            raise CommandError(MISSING) from error
        app, given = app_of_project(), list(args)
        if isinstance(app.db, str):
            os.environ["PERDURE_DB"] = app.db
        if given[:1] == ["worker"]:
            given.insert(1, settings.PERDURE_APP)
        root.main(given, prog_name="manage.py perdure")

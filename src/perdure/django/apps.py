"""The Django application `perdure.django`, and the App that a project names in its settings."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS
from django.db.models.signals import post_migrate
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from perdure.app import App

EXPECTED = 'set PERDURE_APP = "package.module:app" in the settings, the place of an App'


class PerdureConfig(AppConfig):
    """Registers the checks of the settings, and what `migrate` does for Perdure.

    No engine starts here: Django loads applications for every command.
    """

    name = "perdure.django"
    label = "perdure"
    verbose_name = "Perdure"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """See `AppConfig.ready`."""
        post_migrate.connect(make_tables, sender=self)
        register(check_app, "perdure")
        register(check_transactions, Tags.database)


def app_of_project() -> "App":
    """Returns the App that `PERDURE_APP` names.

    Raises:
        ImproperlyConfigured: there is no such setting, it can't be imported, or is something else.
    """
    from perdure.app import App

    place = getattr(settings, "PERDURE_APP", None)
    if not isinstance(place, str) or ":" not in place:
        raise ImproperlyConfigured(f"PERDURE_APP is {place!r}; {EXPECTED}")
    try:
        found = import_string(place.replace(":", "."))
    except ImportError as error:
        raise ImproperlyConfigured(f"PERDURE_APP is {place!r}, which can't be imported ({error}); {EXPECTED}") from error
    if not isinstance(found, App):
        raise ImproperlyConfigured(f"PERDURE_APP is {place!r}, which is {type(found).__name__} and not an App; {EXPECTED}")
    return found


def file_of_app() -> Path | None:
    """Returns the file of the App's database; None if it is none."""
    from perdure.stores.configured_store import configured_url, database_file

    db = app_of_project().db
    return database_file(configured_url(db)) if db is None or isinstance(db, str) else None


def make_tables(using: str, verbosity: int = 1, **_: Any) -> None:
    """Makes or upgrades Perdure's tables after ``manage.py migrate`` has made those of the project: in its SQLite file, or in the App's Postgres database."""
    from perdure.stores.sqlite.database_setup import create_beside_application_tables

    file = file_of_app()
    database, url = settings.DATABASES[using], _url_of_app()
    if file is not None and _is_file(database, file):
        create_beside_application_tables(file)
        made = str(file)
    elif url is not None and using == DEFAULT_DB_ALIAS:
        made = _migrate_postgres(url)
    else:
        return
    if verbosity:
        sys.stdout.write(f"  {made} has Perdure's tables\n")


def _url_of_app() -> str | None:
    """Returns the URL of the App's database if that is one of Postgres."""
    from perdure.stores.configured_store import configured_url, is_postgres

    db = app_of_project().db
    url = configured_url(db) if db is None or isinstance(db, str) else ""
    return url if is_postgres(url) else None


def _migrate_postgres(url: str) -> str:
    """Applies the migrations that are missing, if the role may; returns the name of the database. In a project, `migrate` may run within an event loop."""
    from concurrent.futures import ThreadPoolExecutor

    from perdure.stores.configured_store import shown_url
    from perdure.stores.postgres.schema_maintenance import migrate_schema

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, migrate_schema(url)).result()
    return shown_url(url)


def _is_file(database: dict[str, Any], file: Path) -> bool:
    return database.get("ENGINE") == "django.db.backends.sqlite3" and Path(str(database.get("NAME"))).absolute() == file


def check_app(**_: Any) -> list[CheckMessage]:
    """Checks that the App of the project can be imported."""
    try:
        app_of_project()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="perdure.E001")]
    return []


def check_transactions(**_: Any) -> list[CheckMessage]:
    """Warns if transactions on the file of the App begin as readers: SQLite refuses such a transaction its first write if another has written since."""
    try:
        file = file_of_app()
    except ImproperlyConfigured:
        return []  # check_app says so
    return [
        Warning(
            f"the database {alias!r} is the App's file, and its transactions begin as readers, so that a start within one can fail with 'database is locked'",
            hint='DATABASES[…]["OPTIONS"] = {"transaction_mode": "IMMEDIATE"}',
            id="perdure.W001",
        )
        for alias, database in settings.DATABASES.items()
        if file is not None
        and _is_file(database, file)
        and str(database.get("OPTIONS", {}).get("transaction_mode", "")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}
    ]

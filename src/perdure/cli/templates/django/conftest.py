"""Tests run on a database of their own, which has the tables of the project."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

DIRECTORY = tempfile.mkdtemp(prefix="shop-tests-")
atexit.register(shutil.rmtree, DIRECTORY)  # behind the end of the App, which is registered later
os.environ["SHOP_DATABASE"] = str(Path(DIRECTORY, "shop.db"))
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"


@pytest.fixture(scope="session", autouse=True)
def tables() -> None:
    """Makes the tables before the first test."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)

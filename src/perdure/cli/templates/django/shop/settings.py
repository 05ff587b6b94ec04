"""The settings. The tables of the shop are in the file of Perdure, so that an order and its execution begin in one transaction."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
DEBUG = os.environ.get("DEBUG", "1") == "1"
SECRET_KEY = os.environ.get("SECRET_KEY", "only for development" if DEBUG else "")
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,testserver").split(",")
USE_TZ = True
INSTALLED_APPS = ["perdure.django", "shop"]
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASE_FILE = Path(os.environ.get("SHOP_DATABASE", BASE_DIR / "shop.db"))
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATABASE_FILE,
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},  # transactions begin as writers, as Perdure's do
    }
}
PERDURE_APP = "shop.flows:app"

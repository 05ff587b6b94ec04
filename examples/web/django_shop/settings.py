"""The settings of the shop. Its tables are in the file of Perdure, so that an order and its execution begin in one transaction."""

from examples.web.flows import DIRECTORY, SECRET

SECRET_KEY = SECRET
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
USE_TZ = True
INSTALLED_APPS = ["perdure.django", "examples.web.django_shop"]
ROOT_URLCONF = "examples.web.django_shop.urls"
WSGI_APPLICATION = "examples.web.django_shop.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DIRECTORY / "shop.db", "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20}}}
PERDURE_APP = "examples.web.flows:app"

"""The entry of WSGI servers, each process of which is an engine: `gunicorn shop.wsgi --threads 8`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_wsgi_application()

from shop.flows import app  # noqa: E402  # its steps use models, which Django must have loaded

app.background()

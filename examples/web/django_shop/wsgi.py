"""The entry of WSGI servers, each process of which is an engine.

gunicorn examples.web.django_shop.wsgi --workers 2 --threads 8
"""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.web.django_shop.settings")
application = get_wsgi_application()

from examples.web.flows import app  # noqa: E402  # its steps may use models, which Django must have loaded

app.background()

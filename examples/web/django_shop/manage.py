"""The command line of the project.

python examples/web/django_shop/manage.py migrate
python examples/web/django_shop/manage.py runserver
python examples/web/django_shop/manage.py perdure ls
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.web.django_shop.settings")
    execute_from_command_line(sys.argv)

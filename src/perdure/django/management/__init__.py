"""The commands that `perdure.django` adds to `manage.py`."""

"""Perdure in a Django project: an App by a setting, `manage.py perdure`, checks of the settings, and the ORM in steps.

    INSTALLED_APPS = [..., "perdure.django"]
    PERDURE_APP = "shop.flows:app"

Views use ``app.background()``, which opens the App on a thread of its own in each process of the server. A start with ``connection=connection`` (that of
`django.db`) is part of the transaction that is open there, if the database is the App's, or if the App has a `DjangoOutbox` in it.
"""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

from perdure.core.errors import BadValue
from perdure.django.django_outbox import DjangoOutbox

__all__ = ["DjangoOutbox", "fresh_connections"]

P = ParamSpec("P")
R = TypeVar("R")


def fresh_connections(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates the function of a sync step that uses Django's ORM: before and after each call, connections that are broken or too old are closed.

    Django does this at the beginning and the end of each request. Steps run in threads that live longer than a request, each with connections of its own::

        @step
        @fresh_connections
        def reserve(order_id: str) -> None:
            Order.objects.filter(pk=order_id).update(reserved=True)

    Raises:
        BadValue: the function is async; Django's ORM has connections for each thread.
    """
    if iscoroutinefunction(function):
        raise BadValue("@fresh_connections", function, "a plain function, which runs in a thread; call the ORM there")

    @wraps(function)
    def with_fresh_connections(*args: P.args, **kwargs: P.kwargs) -> R:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return with_fresh_connections

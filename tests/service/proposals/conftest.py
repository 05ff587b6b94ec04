"""The stores that tests of proposals run on."""

from tests.service.conftest import access

__all__ = ["access"]

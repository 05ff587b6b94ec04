"""Claims about the address at which logs are read: it is one, names the execution, and the console gets it from the service's own description."""

from pathlib import Path

import pytest

from perdure.api.log_links import checked_logs_url
from perdure.api.service_api import ServiceApi, ServiceSettings
from perdure.core.errors import BadValue
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.api.service_setup import service_in_process


@pytest.mark.parametrize(
    "template", ["", "https://logs.example.com/?q={workflow}/{id}", "http://[::1]:3100/{tenant}/{id}?step={path}&from={from_ms}&to={to_ms}"]
)
def test_a_template_is_an_address_with_an_execution_in_it(template: str) -> None:
    assert checked_logs_url(template) == template


@pytest.mark.parametrize("template", ["logs.example.com/{id}", "https://logs.example.com/", "https://logs.example.com/{id}/{user}", "javascript:alert({id})"])
def test_anything_else_is_refused(template: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="--logs-url"):
        checked_logs_url(template)
    with pytest.raises(BadValue, match="--logs-url"):
        ServiceApi(StoreAccess(MemoryStore()), ServiceSettings(logs_url=template))


async def test_who_asks_who_they_are_is_told_where_logs_are(tmp_path: Path) -> None:
    async with service_in_process(tmp_path, ServiceSettings(logs_url="https://logs.example.com/{id}"), engine=False) as service:
        answer = await service.by(await service.key("viewer"), "GET", "/api/whoami")
        assert answer.json["logsUrl"] == "https://logs.example.com/{id}"

"""Perdure in real kernels of Jupyter: verbs in cells, displays, cells that run again, interrupted and killed kernels."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.display.notebook_kernel import NotebookKernel, kernel_in

pytestmark = pytest.mark.slow

FLOWS = """
import asyncio
from pathlib import Path
from perdure import App, Client, Context, Signal, step, workflow

paid = Signal("paid", int)

@step
async def charge(order: str) -> str:
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{order}\\n")
    return f"charged {order}"

@workflow
async def receipt(ctx: Context, order: str) -> str:
    return "receipt: " + await ctx.step(charge, order)

@workflow
async def order(ctx: Context, order: str) -> str:
    return await ctx.call(receipt, order)

@workflow
async def patient(ctx: Context, order: str) -> str:
    first = await ctx.step(charge, order)
    return f"{first}, paid {await ctx.listen(paid)}"
"""
APP = "app = App([order, patient], db='sqlite:///shop.db')\nshop = app.background()\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[NotebookKernel]:
    with kernel_in(tmp_path) as one:
        one.run(FLOWS)
        yield one


@pytest.mark.prove
def test_async_verbs_are_awaited_in_a_cell(kernel: NotebookKernel) -> None:
    assert kernel.run("await order.arun('o1')") == "'receipt: charged o1'"
    kernel.run("app = App([order], db='sqlite:///shop.db')")
    shown = kernel.run("async with app:\n    handle = await app.start(order, 'o2')\n    print(await handle.result())\n    display(handle, await handle.tree())")
    assert shown.startswith("receipt: charged o2\n<handle of default/order/")
    assert "`await handle.tree()` displays its operations" in shown
    assert "✓  call:receipt  spawn" in shown


def test_sync_verbs_work_in_a_cell_or_say_which_one_does(kernel: NotebookKernel) -> None:
    assert "Use `await order.arun(...)`" in kernel.run("order.run('o1')")
    assert kernel.run("with App([order], db='sqlite:///shop.db') as shop:\n    print(shop.run(order, 'o1'))") == "receipt: charged o1"
    said = kernel.run("app = App([order, patient], db='sqlite:///shop.db')\nawait app.run(order, 'o2')")
    assert "for all cells of a notebook, `shop = app.background()`" in said
    kernel.run("shop = app.background()")
    assert kernel.run("shop.run(order, 'o3')") == "'receipt: charged o3'"
    assert kernel.run("with Client('sqlite:///shop.db') as client:\n    print(len(client.list()))") == "4"
    assert "use shop.run(...)" in kernel.run("await app.run(order, 'o4')").replace("Use", "use")


def test_a_handle_a_status_and_a_list_are_displayed(kernel: NotebookKernel) -> None:
    kernel.run(APP)
    kernel.run("handle = shop.start(order.with_(id='<b>'), '<script>alert(1)</script>')\nhandle.result()")
    html = kernel.html("handle")
    assert "<details><summary>" in html and "receipt: charged &lt;script&gt;" in html and "<script" not in html and "order/&lt;b&gt;" in html
    assert kernel.run("handle").startswith("order/<b>  completed\n")
    assert "completed" in kernel.html("handle.status()") and kernel.run("handle.status()").startswith("order/<b>  completed\n")
    assert kernel.html("shop.client.list()").count("<tr>") == 3
    assert kernel.run("shop.client.list()").splitlines()[0].split() == ["ID", "WORKFLOW", "STATUS", "CREATED", "TOOK", "NOTE"]
    assert kernel.html("shop.client.list()[0]").count("<tr>") == 2
    assert kernel.run("shop.client.list(workflow='other')") == "no executions"


@pytest.mark.prove
def test_a_child_that_is_defined_again_runs_by_its_new_definition(kernel: NotebookKernel) -> None:
    kernel.run("receipt")  # so that `_` holds the old one
    kernel.run("@workflow\nasync def receipt(ctx: Context, order: str) -> str:\n    return 'new: ' + await ctx.step(charge, order)")
    assert kernel.run("await order.arun('o1')") == "'new: charged o1'"
    assert kernel.run(APP + "shop.run(order, 'o2')") == "'new: charged o2'"


@pytest.mark.prove
def test_the_cell_of_an_app_that_runs_again_leaves_one_engine_with_the_new_code(kernel: NotebookKernel) -> None:
    kernel.run(APP + "old = shop\nwaiting = shop.start(patient.with_(id='p'), 'o1')\nwhile waiting.status().settled == 0: await asyncio.sleep(0.01)")
    kernel.run(
        "@workflow\nasync def patient(ctx: Context, order: str) -> str:\n    await ctx.step(charge, order)\n    return f'new: paid {await ctx.listen(paid)}'"
    )
    kernel.run(APP)
    assert kernel.run("len([one for one in shop.client.engines() if one.alive])") == "1"
    assert kernel.run("handle = shop.handle('p', patient)\nhandle.send(paid, 7)\nhandle.result()") == "'new: paid 7'"
    assert "after the App was closed" in kernel.run("old.run(order, 'o2')")
    kernel.run(APP)
    assert kernel.run("len([one for one in shop.client.engines() if one.alive])") == "1"


@pytest.mark.prove
def test_an_interrupted_cell_continues_when_it_is_run_again(kernel: NotebookKernel, tmp_path: Path) -> None:
    wait = "await patient.with_(id='p', db='sqlite:///shop.db').arun('o1')"
    assert kernel.run(kernel.interrupt_after(0.5) + wait).startswith(("KeyboardInterrupt", "CancelledError"))
    kernel.run("with Client('sqlite:///shop.db') as client:\n    client.get('p').send(paid, 7)")
    assert kernel.run(wait) == "'charged o1, paid 7'"
    kernel.run(APP + "handle = shop.start(patient.with_(id='q'), 'o2')")
    assert kernel.run(kernel.interrupt_after(0.5) + "handle.result()").startswith("KeyboardInterrupt")
    assert kernel.run("handle.send(paid, 8)\nhandle.result()") == "'charged o2, paid 8'"
    assert (tmp_path / "ledger.txt").read_text() == "o1\no2\n"


@pytest.mark.prove
def test_a_kernel_that_is_killed_is_continued_by_the_next_one(tmp_path: Path) -> None:
    with kernel_in(tmp_path) as kernel:
        kernel.run(FLOWS + APP + "handle = shop.start(patient.with_(id='p'), 'o1')\nwhile handle.status().settled == 0: await asyncio.sleep(0.01)")
        kernel.kill()
    with kernel_in(tmp_path) as kernel:
        kernel.run(FLOWS + APP)
        assert kernel.run("handle = shop.start(patient.with_(id='p'), 'o1')\nhandle.created") == "False"
        assert kernel.run("handle.send(paid, 7)\nhandle.result()") == "'charged o1, paid 7'"
    assert (tmp_path / "ledger.txt").read_text() == "o1\n"

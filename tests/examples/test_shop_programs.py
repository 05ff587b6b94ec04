"""A plain script and an asyncio program around one App: killed and interrupted, nothing is lost and nothing is done twice."""

import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.examples.shop_process import ShopProgram

pytestmark = pytest.mark.slow


def stock_file(directory: Path, rows: int) -> Path:
    """A stock file with so many articles."""
    file = directory / "stock.csv"
    file.write_text("".join(f"article {number},{number}\n" for number in range(rows)))
    return file


def has_printed(script: ShopProgram, lines: int) -> bool:
    """Whether a script has printed so many lines."""
    return len(script.lines) >= lines


@pytest.mark.prove
def test_a_script_that_is_killed_continues_its_import(tmp_path: Path) -> None:
    script = ShopProgram(tmp_path, "examples.shop_import", str(stock_file(tmp_path, 4_000)))
    progress: list[str] = []
    for lines in (3, 10, 25):
        script.begin()
        script.wait_until(partial(has_printed, script, lines), "it has progress")
        script.end()
        progress = script.lines
    script.begin()
    assert script.wait() == 0
    assert script.lines[0] == "this file has been begun before" and script.lines[-2:] == ["4000 of 4000 rows", "4000 rows are in the stock"]
    assert progress[-1] in script.lines, "the values of the stream are durable"
    assert script.rows("SELECT count(*), sum(pieces) FROM stock") == [(4_000, sum(range(4_000)))]
    script.begin()
    assert script.wait() == 0
    assert script.rows("SELECT sum(pieces) FROM stock") == [(sum(range(4_000)),)]


def test_a_script_that_is_interrupted_says_how_to_continue(tmp_path: Path) -> None:
    script = ShopProgram(tmp_path, "examples.shop_import", str(stock_file(tmp_path, 4_000)))
    script.begin()
    script.wait_until(partial(has_printed, script, 3), "it has progress")
    assert script.end(signal.SIGINT) == 130
    said = "\n".join(script.lines)
    assert "interrupted; run it again to continue" in said and "Traceback (most recent call last)" not in said
    script.begin()
    assert script.wait() == 0
    assert script.rows("SELECT count(*), sum(pieces) FROM stock") == [(4_000, sum(range(4_000)))]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"screws,200\nnails\n", "line 2 is 'nails', and not ARTICLE,PIECES"), (b"screws,many\n", "line 1 is 'screws,many'"), (b"\xff,1\n", "can't be read")],
)
def test_a_script_refuses_a_file_that_is_wrong_before_it_begins(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "stock.csv").write_bytes(content)
    script = ShopProgram(tmp_path, "examples.shop_import", "stock.csv")
    script.begin()
    assert script.wait() == 10
    assert said in script.lines[0] and len(script.lines) == 1


class Desk(ShopProgram):
    """The desk, with its directories."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "examples.shop_desk", str(directory / "desk"))
        self.inbox, self.outbox = directory / "desk/inbox", directory / "desk/outbox"
        self.inbox.mkdir(parents=True)

    def order(self, name: str, content: str) -> None:
        """Moves an order into the inbox."""
        part = self.inbox / f"{name}.part"
        part.write_text(content)
        part.rename(self.inbox / f"{name}.txt")

    def has_answered(self, count: int) -> bool:
        """Whether so many answers are in the outbox."""
        return len(self.answers()) >= count

    def answers(self) -> dict[str, str]:
        """What is in the outbox, by the name of the order."""
        return {file.stem: file.read_text().strip() for file in self.outbox.glob("*.txt")}


@pytest.mark.prove
def test_a_desk_that_is_killed_answers_each_order_and_charges_it_once(tmp_path: Path) -> None:
    desk, rng = Desk(tmp_path), random.Random(11)
    for part in range(4):
        for number in range(part * 40, part * 40 + 40):
            desk.order(f"o{number}", "100")
        desk.begin()
        desk.wait_until(partial(desk.has_answered, part * 40 + 1), "it answers")
        time.sleep(rng.uniform(0.0, 0.1))
        desk.end()
    desk.begin()
    desk.wait_until(lambda: "the desk is open" in desk.lines and len(desk.answers()) == 160 and not list(desk.inbox.iterdir()), "all orders are answered")
    assert desk.end(signal.SIGTERM) == 0
    assert all(answer.startswith("paid, row ") for answer in desk.answers().values())
    assert sorted(name for (name,) in desk.rows("SELECT order_id FROM ledger")) == sorted(f"o{number}" for number in range(160))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_desk_closes_when_it_is_interrupted_and_keeps_what_waits(tmp_path: Path, number: signal.Signals) -> None:
    desk = Desk(tmp_path)
    desk.order("large", "90000")
    desk.order("small", "100")
    desk.order("strange", "a lot")
    desk.begin()
    desk.wait_until(lambda: any("1 waiting_approval" in line and "answered 2" in line for line in desk.lines), "the report says it, beside the engine")
    assert desk.end(number) == 0
    assert desk.lines[0] == "the desk is open" and desk.lines[-1].startswith("the desk is closed")
    assert "Traceback" not in "".join(desk.lines)
    assert desk.answers() == {"small": "paid, row 1", "strange": "refused: 'a lot' is no price. Write the price in cents, such as 4900"}
    assert [file.name for file in desk.inbox.iterdir()] == ["large.txt"]
    desk.order("small", "200")
    desk.begin()
    desk.wait_until(lambda: desk.answers()["small"].startswith("refused: there is an order of this name"), "another price is another order")
    assert desk.end(number) == 0

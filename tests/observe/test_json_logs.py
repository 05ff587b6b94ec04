"""Claims about logs as JSON: one object a line, whatever a record holds; it says where the record belongs, and no secret."""

import io
import json
import logging
import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Context, step, step_info, workflow
from perdure.core.paths import Key
from perdure.observe.json_logs import TEXT_CHARACTERS_MAX, JsonLogFormatter
from perdure.observe.log_setup import passwords_in, secrets_of_process, set_up_logging
from perdure.observe.request_fields import RequestFields, current_request
from perdure.testing import World


class Lines(logging.Handler):
    """A handler that keeps what the formatter makes."""

    def __init__(self, *secrets: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonLogFormatter(secrets))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The lines as data; each must be one line, in ASCII."""
        assert all("\n" not in line and line.isascii() for line in self.lines)
        return [json.loads(line, parse_constant=pytest.fail) for line in self.lines]


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, Lines]]:
    logger, lines = logging.getLogger("test.json.logs"), Lines("hunter2 is long", "s3cr3t")
    logger.addHandler(lines)
    logger.setLevel(logging.DEBUG)
    yield logger, lines
    logger.removeHandler(lines)


def test_a_record_is_one_object_with_its_time_level_logger_and_message(log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log
    logger.warning("two\nlines %s \u2028", "ü", extra={"cents": 5, "message_id": "m1"})
    (found,) = lines.objects
    assert found["time"].endswith("Z") and found["level"] == "warning" and found["logger"] == "test.json.logs"
    assert found["message"] == "two\nlines ü \u2028" and (found["cents"], found["message_id"]) == (5, "m1")
    assert not {"args", "msg", "levelno", "process", "taskName"} & found.keys()


class Broken:
    """A value that can't be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (2**80, 2**80),
        (b"ab", "b'ab'"),
        ({1: {"a": [1, (2,)]}}, {"1": {"a": [1, [2]]}}),
        ([[[[[[1]]]]]], [[[["[[1]]"]]]]),
        (Broken(), "(Broken)"),
        ({Broken(): 1}, {"(Broken)": 1}),
        ([16**5000, -(16**5000)], ["0x1" + "0" * 5000, "-0x1" + "0" * 5000]),
        (list(range(1000)), list(range(100))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_field_that_json_has_no_form_for_is_text_and_never_fails(log: tuple[logging.Logger, Lines], value: Any, written: Any) -> None:
    logger, lines = log
    logger.info("x", extra={"field": value})
    assert lines.objects[0]["field"] == written


def test_a_message_that_does_not_fit_its_arguments_is_written_all_the_same() -> None:
    lines = Lines()
    for message, value in (("%d of %d", "one"), ("%s", Broken()), ("half a character: %s", "\ud800")):
        lines.handle(logging.LogRecord("test", logging.INFO, "here.py", 1, message, (value,), None))
    assert "%d of %d" in lines.objects[0]["message"] and lines.objects[1]["message"]
    assert lines.objects[2]["message"] == "half a character: \\ud800"


def test_long_text_is_shortened(log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log
    logger.info("x" * 100_000)
    assert len(lines.lines[0]) < TEXT_CHARACTERS_MAX + 500 and "left out" in lines.lines[0]


def test_an_exception_is_data_with_its_causes(log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer s3cr3t") from error
    except ValueError:
        logger.exception("failed")
    found = lines.objects[0]["exception"]
    assert (found["type"], found["message"]) == ("ValueError", "outer ***")
    assert "KeyError: 'inner'" in found["trace"] and "s3cr3t" not in lines.lines[0]


def test_secrets_of_the_process_are_masked_in_every_field(log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log
    logger.info("with %s", "s3cr3t", extra={"one": {"hunter2 is long": ["s3cr3t"]}, "address": "https://x/?q=hunter2%20is%20long"}, stack_info=True)
    assert "hunter2" not in lines.lines[0] and "s3cr3t" not in lines.lines[0]
    assert lines.objects[0]["message"] == "with ***"


def test_the_secrets_of_the_process_are_those_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TOKEN", "t0ken")
    monkeypatch.setenv("PERDURE_DB", "postgresql://ada:pa%20ss@host/db?sslpassword=tls")
    assert {"t0ken", "pa%20ss", "pa ss", "tls"} <= set(secrets_of_process())
    assert passwords_in("sqlite:///x.db") == passwords_in("postgresql://[broken") == []


def test_a_record_names_the_execution_step_attempt_and_tenant(world: World, log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log

    @step
    def writes(number: int) -> None:
        logger.info("in a step")
        if step_info().attempt < number:
            raise OSError("once more")

    @workflow
    async def logs(ctx: Context) -> None:
        await ctx.step(writes, 2)

    world.run(logs.with_(id="l/1"))
    logger.warning("could not advance %s", Key("acme", "logs", "x"))
    logger.info("outside")
    inside = [{name: one.get(name) for name in ("execution", "workflow", "tenant", "step", "attempt")} for one in lines.objects]
    place = {"execution": "logs/l/1", "workflow": "logs", "tenant": "default", "step": "writes"}
    assert inside[:2] == [{**place, "attempt": 1}, {**place, "attempt": 2}]
    assert inside[2] == {"execution": "logs/x", "workflow": "logs", "tenant": "acme", "step": None, "attempt": None}
    assert set(inside[3].values()) == {None}


def test_a_line_of_a_workflow_has_its_execution_and_its_fields(world: World) -> None:
    lines, logger = Lines(), logging.getLogger("perdure.workflow")
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)

    @workflow
    async def says(ctx: Context) -> None:
        ctx.log.info("charged", cents=500)

    world.run(says.with_(id="s1"))
    logger.removeHandler(lines)
    (found,) = lines.objects
    assert (found["message"], found["execution"], found["fields"]) == ("charged cents=500", "says/s1", {"cents": 500})


def test_a_record_names_the_request_that_it_was_written_for(log: tuple[logging.Logger, Lines]) -> None:
    logger, lines = log
    token = current_request.set(RequestFields("r1", "GET", tenant="acme"))
    logger.info("x")
    current_request.reset(token)
    assert (lines.objects[0]["request"], lines.objects[0]["tenant"]) == ("r1", "acme")


def test_json_replaces_the_handlers_of_the_code_and_text_leaves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    root, err = logging.getLogger(), io.StringIO()
    before, level = root.handlers[:], logging.getLogger("test.set.up").level
    monkeypatch.setattr(sys, "stderr", err)
    mine = logging.StreamHandler(io.StringIO())
    try:
        root.handlers[:] = [mine]
        set_up_logging("test.set.up", logging.INFO)
        assert root.handlers == [mine]
        set_up_logging("test.set.up", logging.INFO, "json", ["s3cr3t"])
        logging.getLogger("test.set.up").info("with s3cr3t")
        assert json.loads(err.getvalue())["message"] == "with ***"
    finally:
        root.handlers[:] = before
        logging.getLogger("test.set.up").setLevel(level)
        logging.captureWarnings(False)

"""Claims about values on their way: what would arrive with less than it was given with is refused, before a step opens or instead of its result."""

import dataclasses
from collections.abc import Iterable
from typing import Annotated, Any, NoReturn

import msgspec
import pydantic
import pytest

from perdure import Context, Err, Retry, step, workflow
from perdure.code.function_codec import FunctionCodec
from perdure.core.errors import LossyValue, ProgrammingError, Undecodable, Unencodable, UnsupportedType
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.memory import MemoryStore
from perdure.testing.virtual_time import run
from tests.code.engines import virtually, world


@dataclasses.dataclass
class Card:
    number: str


@dataclasses.dataclass
class Visa(Card):
    limit: int = 5


class Shape(msgspec.Struct):
    size: int


class Circle(Shape):
    pass


class Person(pydantic.BaseModel):
    name: str
    nick: str = pydantic.Field(default="", alias="nickName")
    born: float = 0.0


class Employee(Person):
    salary: int = 0


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Team(pydantic.BaseModel):
    logins: dict[str, list[Login]] = {}


class Hidden(pydantic.BaseModel):
    shown: int
    hidden: int = pydantic.Field(default=0, exclude=True)


class Holder(pydantic.BaseModel):
    person: Person


def takes(value: Any) -> Any:
    """What encodes a value for a parameter of this type."""

    def fn(given: Any) -> None:
        """Of one parameter."""

    fn.__annotations__ = {"given": value}
    return FunctionCodec(fn)


LOST: dict[str, tuple[Any, Any, str]] = {
    "a dataclass below the hinted one": (Card, Visa("4711"), "argument given of step pay would lose data: a Visa would be read back as Card, without limit"),
    "one in a list": (list[Card], [Card("1"), Visa("2")], "field [1] would lose data: a Visa would be read back as Card"),
    "one in a mapping": (dict[str, Card], {"a": Visa("2")}, "field ['a']"),
    "one that may be None": (Card | None, Visa("2"), "a Visa would be read back as Card"),
    "a struct without fields of its own": (Shape, Circle(1), "a Circle would be read back as Shape"),
    "a model below the hinted one": (Person, Employee(name="x", nickName="y"), "a Employee would be read back as Person, without salary"),
    "one in a model": (Holder, Holder(person=Employee(name="x")), "field person would lose data: a Employee would be read back as Person"),
    "a field that is left out": (Any, Hidden(shown=1, hidden=2), "its field hidden is excluded"),
    "a secret": (Any, pydantic.SecretStr("x"), "docs/guides/secrets.md"),
    "a secret in bytes": (Any, pydantic.SecretBytes(b"x"), "docs/guides/secrets.md"),
    "a secret deep in a model": (Any, Team(logins={"a": []}), "its field logins.password is a secret"),
    "another type": (int, "five", "argument given of step pay: the stored value does not fit"),
    "another type in a struct": (Shape, Shape("five"), "$.size"),  # type: ignore[arg-type]  # the mistake under test
}

KEPT: dict[str, tuple[Any, Any, Any]] = {
    "a number for a fraction": (float, 1, 1.0),
    "a tuple for a list": (list[int], (1, 2), [1, 2]),
    "data for a record": (Card, {"number": "1", "more": 1}, Card("1")),
    "a record as data": (Any, Visa("1"), {"number": "1", "limit": 5}),
    "a record as a mapping": (dict[str, Any], {"card": Visa("1")}, {"card": {"number": "1", "limit": 5}}),
    "a model by its aliases": (Person, Person(name="x", nickName="y"), Person(name="x", nickName="y")),
    "what is left out at its default": (Hidden, Hidden(shown=1), Hidden(shown=1)),
    "a set": (set[int], {3, 1, 2}, {1, 2, 3}),
    "what is iterable": (Iterable[int], [1, 2], [1, 2]),
    "a type without a hash": (Annotated[int, msgspec.Meta(extra={"a": []})], 5, 5),
}


@pytest.mark.parametrize(("hint", "value", "why"), LOST.values(), ids=LOST)
def test_an_argument_that_would_lose_something_is_refused_with_its_name_and_field(hint: Any, value: Any, why: str) -> None:
    with pytest.raises(ProgrammingError) as refused:
        takes(hint).encode_args((value,), {}, "the arguments of step", (("pay", 1),))
    assert why in str(refused.value) and "pay" in str(refused.value)
    with pytest.raises((LossyValue, Undecodable, Unencodable)):
        takes(hint).encode_args((), {"given": value}, "the arguments of step")


@pytest.mark.parametrize(("hint", "value", "expected"), KEPT.values(), ids=KEPT)
def test_what_only_changes_its_form_is_kept(hint: Any, value: Any, expected: Any) -> None:
    codec = takes(hint)
    (arrived,), _ = codec.decode_args(codec.encode_args((value,), {}, "it"), "it")
    assert (type(arrived), arrived) == (type(expected), expected)


tried: list[str] = []


@step(retry=Retry(max=3, wait=0.0))
def returns_less(number: str) -> Card:
    tried.append(number)
    return Visa(number)


@step(retry=Retry(max=3, wait=0.0))
async def returns_another(number: str) -> int:
    tried.append(number)
    return number  # type: ignore[return-value]  # the mistake under test


undone: list[Any] = []


@returns_less.undo(in_doubt=True)
def take_back(card: Card | None, number: str) -> None:
    undone.append(card)


@step
def pays(card: Card) -> None:
    tried.append("paid")


@virtually
async def test_a_result_that_would_lose_something_fails_its_step_for_good_and_is_in_doubt() -> None:
    @workflow
    async def buys(ctx: Context) -> list[str]:
        seen = []
        for one in (returns_less, returns_another):
            outcome = await ctx.attempt(one, "1")
            assert isinstance(outcome, Err)
            seen.append(f"{outcome.kind} {outcome.error.type}")
        raise ValueError("; ".join(seen))

    tried.clear()
    undone.clear()
    async with world(buys) as w:
        error = await w.failure(buys)
        assert error.message == "fatal lossy_value; fatal undecodable"
        assert (tried, undone) == (["1", "1"], [None])


@virtually
async def test_an_argument_that_would_lose_something_opens_no_step() -> None:
    @workflow
    async def buys(ctx: Context) -> None:
        await ctx.step(pays, Visa("1"))

    tried.clear()
    async with world(buys) as w:
        key = await w.start(buys)
        error = await w.error(key)
        assert error.type == "lossy_value" and not await w.opened(key) and not tried


@virtually
async def test_a_workflow_that_returns_another_type_than_it_says_has_failed() -> None:
    @workflow
    async def wrong(ctx: Context) -> int:
        return "five"  # type: ignore[return-value]  # the mistake under test

    async with world(wrong) as w:
        error = await w.failure(wrong)
        assert error.type == "undecodable" and "the result of workflow wrong" in error.message


def either(card: Card | Shape) -> None: ...


def hashes(password: pydantic.SecretStr) -> None: ...


def logs_in() -> list[Login]: ...  # type: ignore[empty-body]  # never called


def opens(*files: complex) -> None: ...


def ends() -> NoReturn:
    raise ValueError


@dataclasses.dataclass
class Made:
    size: int
    unit: dataclasses.InitVar[str] = "m"


def makes(made: Made) -> None: ...


UNSUPPORTED: dict[Any, str] = {
    either: "the type hint of the parameter card is",
    hashes: "docs/guides/secrets.md",
    logs_in: "the type hint of the result is list",
    opens: "the type hint of the parameter files is <class 'complex'>",
    makes: "InitVar",
}


@pytest.mark.parametrize(("fn", "why"), UNSUPPORTED.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_a_type_that_can_not_be_decoded_is_refused_when_its_function_is_bound(fn: Any, why: str) -> None:
    async def bind() -> None:
        store = MemoryStore()
        with pytest.raises(UnsupportedType, match="can't be decoded") as refused:
            Worker(store, [step(fn)], queues=["q"])
        assert why in str(refused.value) and fn.__name__ in str(refused.value)

        @workflow
        async def takes_it(ctx: Context, given: Any) -> None: ...

        takes_it.code.fn.__annotations__["given"] = complex
        with pytest.raises(UnsupportedType, match="the parameter given"):
            Engine(store, [takes_it.code])

    run(bind)


@virtually
async def test_a_step_whose_undo_has_a_type_that_can_not_be_decoded_is_not_begun() -> None:
    @step
    def done() -> None:
        tried.append("done")

    @done.undo
    def undo(result: complex) -> None: ...

    @workflow
    async def does(ctx: Context) -> None:
        await ctx.step(done)

    tried.clear()
    async with world(does) as w:
        assert (await w.failure(does)).type == "unsupported_type" and not tried


@virtually
async def test_a_step_that_never_returns_may_say_so() -> None:
    @workflow
    async def does(ctx: Context) -> None:
        await ctx.step(step(retry=Retry(max=1))(ends))

    async with world(does) as w:
        assert "ValueError" in (await w.failure(does)).message

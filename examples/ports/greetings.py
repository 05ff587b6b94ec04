"""Temporal's samples of messages and children: a signal, a query, a child workflow, and the introduction to message passing.

    python examples/ports/greetings.py          # what the introduction's starter does, in one process

The originals are hello/hello_signal.py, hello/hello_query.py, hello/hello_child_workflow.py and message_passing/introduction of
https://github.com/temporalio/samples-python at e652a4d, Copyright (c) 2022 Temporal Technologies Inc., MIT.
"""

import asyncio
import sys
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script has only its own directory there

from perdure import App, AsyncHandle, Context, Ok, Signal, step, workflow

# hello_signal: names arrive until the workflow is told to end.


@workflow
async def collect_greetings(ctx: Context) -> list[str]:
    greetings = []
    while (message := await ctx.listen("submit_greeting", "exit", completable=True)).name != "exit":
        greetings.append(f"Hello, {message.body}")
        message.complete()
    message.complete()
    return greetings


# hello_query: a value that may be read at any time, also after the end.


@workflow
async def greet_and_part(ctx: Context, name: str) -> None:
    ctx.set("greeting", f"Hello, {name}!")
    await ctx.sleep("2s")
    ctx.set("greeting", f"Goodbye, {name}!")


# hello_child_workflow: a workflow calls another one.


@dataclass
class ComposeGreetingInput:
    greeting: str
    name: str


@workflow
async def compose_greeting(ctx: Context, parts: ComposeGreetingInput) -> str:
    return f"{parts.greeting}, {parts.name}!"


@workflow
async def greet_by_child(ctx: Context, name: str) -> str:
    return await ctx.call(compose_greeting.with_(id=f"greeting-of-{name}"), ComposeGreetingInput("Hello", name))


# message_passing/introduction: queries, updates and a signal.


class Language(IntEnum):
    ARABIC = 1
    CHINESE = 2
    ENGLISH = 3
    FRENCH = 4
    HINDI = 5
    PORTUGUESE = 6
    SPANISH = 7


set_language = Signal("set_language", Language)
set_language_using_service = Signal("set_language_using_service", Language)
approve = Signal("approve", str)


@step(timeout="10s")
async def call_greeting_service(language: Language) -> str | None:
    greetings = {
        Language.ARABIC: "مرحبا بالعالم",
        Language.CHINESE: "你好，世界",
        Language.ENGLISH: "Hello, world",
        Language.FRENCH: "Bonjour, monde",
        Language.HINDI: "नमस्ते दुनिया",
        Language.PORTUGUESE: "Olá mundo",
    }
    return greetings.get(language)


@workflow
async def greeting(ctx: Context) -> str:
    greetings = {Language.CHINESE: "你好，世界", Language.ENGLISH: "Hello, world"}
    language = Language.ENGLISH
    while True:
        ctx.set("language", language)
        ctx.set("languages", sorted(greetings))
        message = await ctx.listen(set_language.name, set_language_using_service.name, approve.name, completable=True)
        if message.name == approve.name:
            message.complete()
            return greetings[language]
        wanted = Language(message.body)
        if message.name == set_language_using_service.name and wanted not in greetings:
            match await ctx.attempt(call_greeting_service, wanted):
                case Ok(str(found)):
                    greetings[wanted] = found
        if wanted in greetings:
            message.complete({"previous": language})
            language = wanted
        else:
            message.complete({"refused": f"{wanted.name} is not supported"})


async def change_language(handle: AsyncHandle[Any], change: Signal[Language], language: Language) -> Language:
    """Asks a greeting for another language and returns the previous one.

    Raises:
        ValueError: the workflow has refused it.
    """
    reply = await handle.ask(change, language)
    if "refused" in reply:
        raise ValueError(reply["refused"])
    return Language(reply["previous"])


app = App([collect_greetings, greet_and_part, greet_by_child, compose_greeting, greeting])


async def main() -> None:
    """Does what the starter of the introduction does."""
    async with app:
        handle = await app.start(greeting)
        print("supported languages:", [Language(one).name for one in await handle.query("languages")])
        for change, language in ((set_language, Language.CHINESE), (set_language_using_service, Language.ARABIC)):
            previous = await change_language(handle, change, language)
            print(f"language changed: {previous.name} -> {Language(await handle.query('language')).name}")
        await handle.send(approve, "Ada")
        print(await handle.result())


if __name__ == "__main__":
    asyncio.run(main())

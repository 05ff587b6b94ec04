"""Payloads under kill -9: encrypted and compressed, the key changed while engines run, and whoever encrypts all anew killed too."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure import Compressed, Context, Encrypted, Err, step, workflow
from perdure.core.paths import Key
from perdure.stores.encryption import parse_keys
from perdure.stores.sqlite.rekey import key_uses, rekey
from perdure.sync_client import Client
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

CANARY = "kanarienvogel"
LARGE = 7_000
"""How often it stands in what is kept as a blob."""

OLD, NEW = (f"{name}:{b64encode(sha256(name.encode()).digest()).decode()}" for name in ("old", "new"))
KEYS = {1: OLD, 2: f"{OLD},{NEW}", 3: f"{NEW},{OLD}", 4: NEW}
"""What every process is given, one after the other: the new key behind the old one, before it, alone."""


@step(retry=PATIENT)
async def enlarge(number: int) -> str:
    with doing([number, "enlarge"]):
        await asyncio.sleep(0.004)
    return f"{CANARY} {number} " * LARGE


@step(retry=PATIENT)
async def digest(text: str) -> str:
    with doing():
        await asyncio.sleep(0.004)
    return sha256(text.encode()).hexdigest()


@step(retry=PATIENT)
async def fail(word: str) -> None:
    with doing():
        raise ValueError(f"{CANARY} {word}")


@workflow
async def child(ctx: Context, text: str) -> str:
    await ctx.sleep("30ms")
    return await ctx.step(digest, text)


@workflow
async def secretive(ctx: Context, number: int, word: str) -> list[Any]:
    text = await ctx.step(enlarge, number)
    heard = await ctx.listen("word")
    found = [await ctx.call(child, text), heard == word * 2]
    match await ctx.attempt(fail, word):
        case Err(_, _, error):
            found.append(error.message)
    return found


def encrypt_anew(client: Client, file: str) -> None:
    """Have everything under the first of the keys of today."""
    done = rekey(Path(file), Encrypted(parse_keys(KEYS[3]), Compressed()))
    assert done.refused == (), done


def drive(run: ScenarioRun) -> None:
    """Start executions, and change the key meanwhile."""
    run.stage.codec = Encrypted(parse_keys(KEYS[3]), Compressed())
    give(run, 1)
    handles: list[Any] = []
    for number in run.numbers():
        phase = 1 + 3 * number // run.size.executions
        if KEYS[phase] != run.environment["PERDURE_ENCRYPTION_KEYS"]:
            give(run, phase)
        with run.client() as client:
            handles.append((number, client.start(secretive.with_(id=str(number)), number, f"{CANARY} {number}").key))
            for one, key in handles[-4:-3]:
                client.get(key, secretive).send("word", f"{CANARY} {one}" * 2, key="word")
    with run.client() as client:
        for one, key in handles[-3:]:
            client.get(key, secretive).send("word", f"{CANARY} {one}" * 2, key="word")
    run.operator("rekey", str(run.stage.file), kills=6)
    give(run, 4)


def give(run: ScenarioRun, phase: int) -> None:
    """Give all processes other keys."""
    begun = bool(run.environment)
    run.environment = {"PERDURE_ENCRYPTION_KEYS": KEYS[phase], "PERDURE_COMPRESS": "1", "PERDURE_ENCRYPTION_REQUIRED": "1"}
    if begun:
        run.replace_all()
    else:
        run.begin()


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """The results are right, everything is under the new key, and nothing can be read in the file."""
    with run.client() as client:
        for number in range(run.size.executions):
            text = f"{CANARY} {number} " * LARGE
            found = client.get(str(number), secretive).result(1.0)
            assert found == [sha256(text.encode()).hexdigest(), True, f"{CANARY} {CANARY} {number}"]
    uses = {use.key_id for use in key_uses(run.stage.file)}
    assert uses == {"new"}, uses
    for path in run.stage.directory.glob("perdure.db*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path
    assert all(history.head.status == "completed" for history in histories.values())
    return "all under the new key"


SCENARIO = Scenario(lambda _: (secretive, child), drive, check, Size(16, 14), Size(150, 120), operators={"rekey": encrypt_anew})

"""Canaries: secrets that can be known again in whatever form they are written, the ways by which steps might let one out, and all that a system has written."""

import asyncio
import base64
import json
import logging
import shlex
import traceback
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from perdure import Fatal, step_info
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatRequest, ToolCall

CANARY = "cAnArY+of/all 'kinds' \"ü\" <7>&\\%x"
LINES = "-----BEGIN KEY-----\n" + "\n".join(f"cAnArYLiNe{number}{'qWeRtZ' * 9}" for number in range(4)) + "\n-----END KEY-----\n"
SECRETS = {"ODD": CANARY, "KEY": LINES, "PLAIN": "cAnArY0123456789plain"}

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": json.dumps,
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"x": secret})),
    "repr": repr,
    "an address": lambda secret: f"https://x/?a={quote(secret, safe='')}&b={quote_plus(secret)}",
    "HTML": escape,
    "a shell": shlex.quote,
    "hexadecimal": lambda secret: secret.encode().hex(),
    "base64": lambda secret: " ".join(base64.b64encode(f"{'u' * before}:{secret}!".encode()).decode() for before in range(3)),
    "base64 for addresses": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "base64 in lines": lambda secret: base64.encodebytes(secret.encode()).decode(),
}


def traces() -> list[bytes]:
    """What is found of a canary, in some form, wherever it is: its beginning and its middle."""
    found: set[str] = set()
    for secret in (*SECRETS.values(), *(line for line in LINES.splitlines() if "cAnArY" in line)):
        cores = [base64.b64encode(b"\0" * before + secret.encode()).decode()[4:20] for before in range(3)]
        found |= {
            secret,
            secret.encode().hex()[:20],
            secret.encode().hex()[:20].upper(),
            *cores,
            *(core.translate(str.maketrans("+/", "-_")) for core in cores),
        }
    return [trace.encode() for trace in (*found, "cAnArY", "CaNaRy")]


TRACES = traces()


def of_secrets(raw: bytes) -> list[bytes]:
    """What is found of canaries in some bytes, with a little of what stands around."""
    return [raw[max(0, at - 60) : at + 60] for trace in TRACES if (at := raw.find(trace)) >= 0]


def all_forms(secrets: Iterable[str]) -> dict[str, str]:
    """The secrets in all forms."""
    known = list(secrets)
    return {name: "; ".join(form(secret) for secret in known) for name, form in FORMS.items()}


class Leak(Exception):
    """An error of a step, with the secret in its arguments."""


def leaking(how: str, secrets: list[str]) -> Any:
    """Let secrets out in one way, from within a step."""
    forms, info = all_forms(secrets), step_info()
    match how:
        case "result":
            return {"forms": forms, "bytes": "".join(secrets).encode(), **{secret: [secret] for secret in secrets}}
        case "large result":
            return {"text": ("x" * 1000 + "; ".join(forms.values())) * 100}
        case "error":
            raise Leak(*secrets, forms)
        case "fatal error":
            raise Fatal("; ".join(forms.values()))
        case "chained error":
            try:
                raise Leak(*forms.values())
            except Leak as error:
                raise ValueError(f"{secrets!r}") from error
        case "error of a group":
            raise ExceptionGroup("; ".join(secrets), [Leak(*secrets)])
        case "error that is named so":
            raise type(secrets[-1], (Exception,), {})("named")
        case "progress":
            info.heartbeat({"at": secrets})
            raise ValueError("what it has said of how far it was is kept")
        case "logs":
            logger = logging.getLogger("tests.canaries")
            logger.debug("with %s and %r", secrets[0], secrets)
            logger.warning("; ".join(forms.values()))
            logger.info("does not %d fit", secrets[0])
            try:
                raise Leak(*secrets)
            except Leak:
                logger.exception("an error", stack_info=True)
            return "done"
        case "cut output":
            return info.mask.text("x" * 100 + secrets[0])[-105:]
        case "traceback":
            return "".join(traceback.format_exception(Leak(*secrets)))
    raise AssertionError(how)


LEAKS = (
    *("result", "large result", "error", "fatal error", "chained error", "error of a group", "error that is named so"),
    *("progress", "logs", "cut output", "traceback"),
)


def tool(how: str, token: str, key: str, plain: str) -> Any:
    """A step in a thread."""
    return leaking(how, [token, key, plain])


async def awaited(how: str, token: str, key: str, plain: str) -> Any:
    """A step that is awaited."""
    await asyncio.sleep(0)
    return leaking(how, [token, key, plain])


async def echo(config: Any, input: Any = None, env: Any = None) -> Any:
    """A kind of steps that lets out all that it is given."""
    odd = config["headers"]["k"] if isinstance(config, dict) and "headers" in config else input["odd"]
    plain = env["PLAIN"] if env else input["plain"]
    return leaking((input or {}).get("how", "result"), [odd, input["key"], plain])


class CanaryStep(NamedTuple):
    """A kind of steps: the document of a step of it that reads all `SECRETS`, and what does its work in place of what is registered, if anything does."""

    step: dict[str, Any]
    kind: Callable[..., Any] | None = None


WITH = {"token": "@secrets.ODD", "key": "@secrets.KEY", "plain": "@secrets.PLAIN"}

IN_EARNEST = {
    "url": "http://127.0.0.1:@{input.port}/echo?x=1",
    "method": "POST",
    "headers": {"Authorization": "Bearer @{secrets.PLAIN}", "X-Plain": "@secrets.PLAIN"},
}
"""What the server of the tests echoes: its request, with the canaries of headers, of the query and of the body in it, which is `json`."""

SAYS = """
printf '%s\\n' "$ODD" "$KEY" "$PLAIN"; env; set; printf '%s' "$KEY" | base64; printf 'u:%s' "$PLAIN" | base64 >&2
head -c 40000 /dev/zero | tr '\\0' x; printf '%s' "$ODD"; exit 3
"""
CUTS = """
many() {{ head -c "$1" /dev/zero | tr '\\0' x; }}
many {beside}; printf '%s' "$PLAIN"; many 90000; printf '%s' "$PLAIN"; many {beside}
echo "$ODD$KEY" >&2
"""
"""Commands that print their environment, and that print so much that a secret is cut in two."""
TS = """
export default function (input: {token: string, key: string, plain: string}) {
  console.log(JSON.stringify(input), `of ${input.key}`)
  return {said: JSON.stringify(JSON.stringify(input)), [input.plain]: input, address: encodeURIComponent(input.token)}
}
"""
TS_FAILS = "export default function (input: any) { throw new Error(JSON.stringify(input)) }"
PYTHON = """
def main(input):
    print(input, repr(input["token"]))
    return {"said": repr(repr(input)), input["plain"]: input}
"""
PYTHON_FAILS = """
def main(input):
    raise ValueError(input["token"] + repr(input))
"""
ENVIRONMENT = {"ODD": "@secrets.ODD", "KEY": "@secrets.KEY", "PLAIN": "@secrets.PLAIN"}

READ = {"with": {"odd": "@secrets.ODD", "key": "@secrets.KEY", "plain": "@secrets.PLAIN"}}
IN_ENVIRONMENT = {"with": {"odd": "@secrets.ODD"}, "env": {"ODD": "@secrets.ODD", "KEY": "@secrets.KEY", "PLAIN": "@secrets.PLAIN"}}
COMMAND = """
given=$(cat); echo "$given"
for secret in "$ODD" "$KEY" "$PLAIN"; do
  printf '%s\n' "$secret"; printf %s "$secret" | base64 -w0; echo; printf %s "u$secret" | base64
  printf %s "$secret" | od -An -v -tx1 | tr -d ' \n'; echo; printf '%q\n' "$secret"
done | tee /dev/stderr
"""
"""Says all that a command is given, in several forms, on both streams."""

TYPESCRIPT = """export default (input: any) => {
  const hexadecimal = (text: string) => encodeURIComponent(text)
  console.log(input.odd, JSON.stringify(input), JSON.stringify(JSON.stringify(input)), hexadecimal(input.odd))
  console.error(input.plain.slice(0, 30))
"""
PYTHON_SAYS = """
import base64
def main(input):
    print(input, repr(input), input["odd"].encode().hex())
    forms = [base64.b64encode(("u" * before + text).encode()).decode() for text in input.values() for before in range(3)]
    print(forms)
"""
PIPED = {"url": "http://127.0.0.1:@{input.port}/PATH?x=1", "headers": {"Authorization": "Bearer @{secrets.PLAIN}", "X-Plain": "@secrets.PLAIN"}}


def piped(path: str) -> dict[str, Any]:
    """A pipeline that asks for a path of the server, with a secret in the headers."""
    return {"pipeline": [{"http_request": {**PIPED, "url": PIPED["url"].replace("PATH", path)}}]}  # type: ignore[attr-defined]  # it is the text


KINDS: dict[str, CanaryStep] = {
    **{f"ts {number}": CanaryStep({"ts": source, "with": WITH}) for number, source in enumerate((TS, TS_FAILS))},
    **{f"python {number}": CanaryStep({"python": source, "with": WITH}) for number, source in enumerate((PYTHON, PYTHON_FAILS))},
    "bash": CanaryStep({"bash": {"command": SAYS, "check": True}, "env": ENVIRONMENT}),
    **{f"bash, cut {at}": CanaryStep({"bash": CUTS.format(beside=32768 - at), "env": ENVIRONMENT}) for at in (1, 8, 20)},
    "bash in earnest": CanaryStep({"bash": COMMAND, **IN_ENVIRONMENT}),
    "bash that lives": CanaryStep({"bash": f"{COMMAND}sleep 1.2; echo $PLAIN", **IN_ENVIRONMENT}),
    "bash that fails": CanaryStep({"bash": {"command": f'{COMMAND}echo "no $PLAIN $ODD" >&2; exit 1', "check": True}, **IN_ENVIRONMENT}),
    "ts in earnest": CanaryStep({"ts": f"{TYPESCRIPT}  return {{input, text: JSON.stringify(input), [input.plain]: 1}}\n}}", **READ}),
    "ts that throws": CanaryStep({"ts": f"{TYPESCRIPT}  throw new Error(`${{input.odd}} ${{input.key}} ${{input.plain}}`)\n}}", **READ}),
    "python in earnest": CanaryStep({"python": f"{PYTHON_SAYS}    return {{'input': input, 'forms': forms, input['plain']: 1}}\n", **READ}),
    "python that raises": CanaryStep({"python": f"{PYTHON_SAYS}    raise ValueError(f'{{input!r}} {{forms}}')\n", **READ}),
    "http that is refused": CanaryStep(
        {
            "http": {**IN_EARNEST, "url": "http://127.0.0.1:@{input.port}/refused?x=1"},
            "with": {"query": {"odd": "@secrets.ODD"}, "json": {"key": "@secrets.KEY"}},
        }
    ),
    "pipeline in earnest": CanaryStep(piped("echo")),
    "pipeline that is refused": CanaryStep(piped("refused")),
    "llm in earnest": CanaryStep({"llm": {"model": "echoes", "prompt": "Say this again"}, **READ}),
    "llm that fails": CanaryStep({"llm": {"model": "refuses", "prompt": "Say this again"}, **READ}),
    "http in earnest": CanaryStep({"http": IN_EARNEST, "with": {"query": {"odd": "@secrets.ODD"}, "json": {"key": "@secrets.KEY", "odd": "@secrets.ODD"}}}),
    "http": CanaryStep({"http": {"url": "https://x", "headers": {"k": "@secrets.ODD"}}, "with": {"key": "@secrets.KEY", "plain": "@secrets.PLAIN"}}, echo),
    "llm": CanaryStep({"llm": {"model": "small", "prompt": "x"}, **READ}, echo),
    "task": CanaryStep(
        {"task": {"type": "own", "config": {"headers": {"k": "@secrets.ODD"}}}, "with": {"key": "@secrets.KEY"}, "env": {"PLAIN": "@secrets.PLAIN"}}, echo
    ),
}
"""A row for each kind of steps; a new kind is proved by adding one. Its step reads ODD, KEY and PLAIN (in ``with``, ``env``, headers: wherever the kind
lets them stand) and gives back all that it can of them: a real kind by its own means (a command that prints its environment, a server that echoes), so
that its name here is the verb, and `kind` is None. With a row's own `kind`, that stands in for the verb's."""


async def parrot(request: ChatRequest) -> ChatAnswer:
    """A model that says again all that it is told, and uses a tool with it once."""
    said = "\n".join(f"{message.text} {message!r}" for message in request.messages)
    if request.tools and not any(message.role == "tool" for message in request.messages):
        return ChatAnswer(calls=(ToolCall("call-1", "say", {"value": f"{said} @secrets.ODD @{{secrets.KEY}}"}),), finish="tool", model=request.model)
    return ChatAnswer(text=said, model=request.model)


MODELS: dict[str, Any] = {"parrot": parrot}
"""The models of the tests; those that are asked over HTTP come once there is a server."""


def asked_over_http(url: str) -> dict[str, Any]:
    """Models of a server, of which one refuses whatever it is asked."""
    return {name: {"provider": "openai-chat", "model": name, "base_url": f"{url}v1"} for name in ("echoes", "refuses")}


def written(directory: Path) -> dict[str, bytes]:
    """All files below a directory, with what is in them."""
    return {str(file.relative_to(directory)): file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file() and not file.is_symlink()}

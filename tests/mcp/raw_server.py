"""An MCP server in a few lines, without a library: it begins at once, and can be as bad as servers are. What it does is said by its argument.

Each call is written to the file CALLS before it is answered.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
TOOLS: list[dict[str, Any]] = [
    {"name": "add", "description": "Adds two numbers.", "inputSchema": NUMBERS, "annotations": {"readOnlyHint": True}},
    {"name": "user", "description": "A user.", "inputSchema": {"type": "object"}},
    {"name": "charge", "inputSchema": {"type": "object"}},
    {"name": "put", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
    {"name": "fails", "inputSchema": {"type": "object"}},
    {"name": "parts", "inputSchema": {"type": "object"}},
    {"name": "echo", "inputSchema": {"type": "object"}},
    {"name": "env", "inputSchema": {"type": "object"}},
    {"name": "asks", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "samples", "inputSchema": {"type": "object"}},
    {"name": "key", "inputSchema": {"type": "object"}},
    {"name": "endless", "inputSchema": {"type": "object"}},
]
FORM = {"type": "object", "properties": {"account": {"type": "string"}, "copies": {"type": "integer"}}, "required": ["account"]}

LATER: list[str] = []
"""What came while the client was asked."""


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def called(id: Any, name: str, given: dict[str, Any], token: Any) -> dict[str, Any] | None:
    """The answer to a call; None if it is not answered."""
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.write(f"{name} {json.dumps(given)}\n")
    text = {"type": "text", "text": ""}
    match name:
        case "add":
            total = given["a"] + given.get("b", 1)
            return {"content": [{**text, "text": str(total)}], "structuredContent": {"total": total}}
        case "user":
            return {"content": [{**text, "text": json.dumps({"id": 7, "name": given.get("name")})}]}
        case "charge" | "put":
            died = Path(os.environ["CALLS"] + ".died")
            if given.get("dies") and not died.exists():
                died.touch()
                os._exit(3)
            for number in range(given.get("waits", 0)):
                if token is not None:
                    send(
                        {
                            "method": "notifications/progress",
                            "params": {"progressToken": token, "progress": number, "total": given["waits"], "message": "at work"},
                        }
                    )
                time.sleep(0.1)
            return {"content": [{**text, "text": "charged"}]}
        case "fails":
            return {"content": [{**text, "text": f"no: {given.get('why')}"}], "isError": True}
        case "parts":
            return {"content": [{**text, "text": "one"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
        case "env":
            return {"content": [{**text, "text": json.dumps(dict(os.environ))}]}
        case "key":
            time.sleep(given.get("waits_s", 0))
            key = os.environ["API_KEY"][::-1]  # a secret is not masked when it is read backwards
            return {"content": [{**text, "text": json.dumps({"reversed": key, "process": os.getpid()})}]}
        case "asks":
            form = {"message": "Which account?", "requestedSchema": FORM}
            address = {"mode": "url", "message": "Sign in", "url": given.get("url"), "elicitationId": "e"}
            return {"content": [{**text, "text": json.dumps(asked("elicitation/create", address if "url" in given else form))}]}
        case "samples":
            time.sleep(given.pop("delay", 0))
            wanted = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}], "maxTokens": 5}
            answers = [asked("sampling/createMessage", {**wanted, **given}) for _ in range(given.pop("times", 1))]
            return {"content": [{**text, "text": json.dumps(answers)}]}
        case "endless":
            with Path(os.environ["CALLS"] + ".child").open("w") as child:
                child.write(str(subprocess.Popen(["sleep", "600"]).pid))
            while True:
                sys.stdout.write("x" * 1_000_000)
        case "echo":
            return {"content": [{**text, "text": str(given.get("text"))}]}
    return None


def asked(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the client answers to a request of the server, also if that is an error."""
    send({"id": "asked", "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "asked":
            return dict(message.get("result") or message.get("error") or {})
        LATER.append(line)
    return {}


def listed() -> list[dict[str, Any]]:
    match MODE:
        case "many":
            return [{"name": f"tool{number}", "inputSchema": {"type": "object"}} for number in range(3_000)]
        case "names":
            return [
                *TOOLS[:1],
                {"name": "a\u001b[31mred", "inputSchema": {"type": "object"}},
                {"name": "", "inputSchema": {"type": "object"}},
                {"name": "add", "inputSchema": {"type": "object"}},
            ]
        case "lies":
            return [{**TOOLS[0], "inputSchema": {"type": "object", "properties": {"a": {"type": "no type"}}}}]
        case "other":
            return [*TOOLS[1:], {"name": "new", "inputSchema": {"type": "object"}}]
    return TOOLS


def lines() -> Iterator[str]:
    """The messages, those that came while the client was asked among them."""
    for line in sys.stdin:
        LATER.append(line)
        while LATER:
            yield LATER.pop(0)


def main() -> None:
    for line in lines():
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if id is None or method is None:
            continue
        if method == "initialize":
            about = {
                "protocolVersion": params.get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
            send({"id": id, "result": about})
        elif method == "tools/list":
            send({"id": id, "result": {"tools": listed()}})
        elif method == "tools/call":
            if MODE == "garbage":
                sys.stdout.write("this is no JSON\n{]\n")
                sys.stdout.flush()
            if MODE == "silent":
                continue
            answer = called(id, params["name"], params.get("arguments") or {}, (params.get("_meta") or {}).get("progressToken"))
            if MODE == "wrong":
                send({"id": id, "result": {"content": 5}})
            elif answer is None:
                send({"id": id, "error": {"code": -32602, "message": f"there is no tool {params['name']}"}})
            else:
                send({"id": id, "result": answer})
        elif method == "ping":
            send({"id": id, "result": {}})
        else:
            send({"id": id, "error": {"code": -32601, "message": f"there is no method {method}"}})


if MODE == "prints":
    sys.stderr.write("at work\n" * 40_000)
if MODE == "ends":
    sys.exit("this server does not begin")
main()

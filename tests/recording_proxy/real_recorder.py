"""Twenty calls of tools for files, a memory and a repository, recorded: ``real_recorder.py CONFIG INPUT DIES_IN``.

The process kills itself when the server has answered the call of that number (0: it does not), before the answer is recorded.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from perdure.mcp.server_configs import read_servers
from perdure.mcp.server_session import ServerSession
from perdure.mcp.server_tools import recorded_tools
from perdure.mcp.tool_lists import kept_lists
from perdure.operations import on_recordings
from perdure.recording.recording_workflow import recording_workflow
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import open_store

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("files.create_directory", {"path": "@input.dir"}),
    ("files.write_file", {"path": "@input.notes", "content": "@input.text"}),
    ("files.read_text_file", {"path": "@input.notes"}),
    ("files.write_file", {"path": "@input.copy", "content": "@read_text_file_1.content"}),
    ("files.list_directory", {"path": "@input.dir"}),
    ("files.edit_file", {"path": "@input.notes", "edits": [{"oldText": "@input.text", "newText": "@input.more"}]}),
    ("files.read_text_file", {"path": "@input.notes"}),
    ("files.get_file_info", {"path": "@input.copy"}),
    ("files.move_file", {"source": "@input.copy", "destination": "@input.moved"}),
    ("files.search_files", {"path": "@input.dir", "pattern": "*.txt"}),
    ("memory.create_entities", {"entities": [{"name": "@input.entity", "entityType": "note", "observations": ["@read_text_file_2.content"]}]}),
    ("memory.create_entities", {"entities": [{"name": "repository", "entityType": "place", "observations": ["@literal"]}]}),
    ("memory.create_relations", {"relations": [{"from": "@input.entity", "to": "repository", "relationType": "is kept in"}]}),
    ("memory.add_observations", {"observations": [{"entityName": "@input.entity", "contents": ["@read_text_file_1.content"]}]}),
    ("memory.search_nodes", {"query": "@input.entity"}),
    ("memory.read_graph", {}),
    ("git.git_status", {"repo_path": "@input.repo"}),
    ("git.git_add", {"repo_path": "@input.repo", "files": ["."]}),
    ("git.git_commit", {"repo_path": "@input.repo", "message": "@read_text_file_2.content"}),
    ("git.git_log", {"repo_path": "@input.repo", "max_count": 1}),
]


async def main(config: str, given: dict[str, Any], dies_in: int) -> None:
    servers = read_servers(config)
    store = open_store("sqlite:///real.db")
    engine = Engine(store, [recording_workflow(recorded_tools(servers, kept_lists(servers)))])
    running = await begin_engine(engine)
    access, session, call = StoreAccess(store, engine), ServerSession, ServerSession.call
    number = 0

    async def dying(*args: Any, **kwargs: Any) -> Any:
        answer = await call(*args, **kwargs)
        if number == dies_in:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    patched: Any = session
    patched.call = dying
    await on_recordings.start(access, "default", "real", input=given)
    for number, (tool, arguments) in enumerate(CALLS, 1):
        answer = await on_recordings.call(access, "default", "real", tool, arguments, str(number))
        assert not answer.is_error, (tool, answer)
    saved = await on_recordings.save(access, "default", "real", "keep-notes", "ada")
    document = await on_recordings.definition(access, "default", "real", "keep-notes")
    Path("definition.json").write_bytes(document.document)  # noqa: ASYNC240  # a small file at the end
    sys.stdout.write(saved.version)
    engine.stop()
    await running
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])))

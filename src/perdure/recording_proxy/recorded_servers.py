"""The MCP servers whose tools the engine of this process calls in recordings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.mcp.call_channels import CallChannels
from perdure.mcp.server_configs import McpServer, read_servers
from perdure.mcp.server_tools import recorded_tools
from perdure.mcp.tool_lists import ToolList, kept_lists
from perdure.recording.recording_workflow import recording_workflow

if TYPE_CHECKING:
    from perdure.code.declarations import CodeWorkflow


class RecordedServers(NamedTuple):
    """Servers, the lists of their tools, the channels to those who call here, and the models that servers may ask."""

    servers: Sequence[McpServer]
    lists: dict[str, ToolList]
    channels: CallChannels
    models: Mapping[str, Any]

    @classmethod
    def of_files(cls, files: Iterable[str], models: Mapping[str, Any]) -> RecordedServers | None:
        """Returns the servers in these files, with the lists of their tools, which are asked for if they are not kept. None if the files have no servers.

        Raises:
            ServerUnavailable: a server whose list is not kept can't be reached.
        """
        found = list({server.name: server for file in files for server in read_servers(file)}.values())
        return cls(found, kept_lists(found), CallChannels(), models) if found else None

    @property
    def workflow(self) -> CodeWorkflow:
        """The workflow of recordings for an engine that has their tools."""
        return recording_workflow(recorded_tools(self.servers, self.lists, self.channels, self.models))

"""Tools of MCP servers as steps: ``App(tools=[*mcp_tools("mcp.json"), ...])``, or ``--tools mcp.json``.

A definition calls them by the names of server and tool: ``tool: files.read_file``. Needs ``pip install "perdure[mcp]"``.
"""

from perdure.mcp.server_configs import McpServer, read_servers
from perdure.mcp.server_session import ServerUnavailable
from perdure.mcp.server_tools import mcp_tools
from perdure.mcp.tool_results import McpToolFailed

__all__ = ["McpServer", "McpToolFailed", "ServerUnavailable", "mcp_tools", "read_servers"]

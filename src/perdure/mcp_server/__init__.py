"""Perdure as a server of the Model Context Protocol: operations as tools for models, over standard input and output or at ``/mcp`` of a server.

The tools are made from the table of operations, so parameters, checks, results and errors are those of the HTTP API. Needs ``pip install "perdure[mcp]"``;
the library of the protocol is imported when the first client comes.
"""

from perdure.mcp_server.mcp_endpoint import McpEndpoint
from perdure.mcp_server.published_workflows import PublishedWorkflows

__all__ = ["McpEndpoint", "PublishedWorkflows"]

"""An MCP server that asks for OAuth, on a port: ``oauth_server.py PORT``. Whoever asks to sign in, may."""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions

PORT = int(sys.argv[1])
server = FastMCP(
    "private", auth=InMemoryOAuthProvider(base_url=f"http://127.0.0.1:{PORT}", client_registration_options=ClientRegistrationOptions(enabled=True))
)


@server.tool(annotations={"readOnlyHint": True})
def secret_number() -> int:
    return 42


server.run(transport="http", host="127.0.0.1", port=PORT, show_banner=False, log_level="error")

"""An MCP server in front of others: it forwards what a client asks of them, and records each call of a tool as a step of a recording."""

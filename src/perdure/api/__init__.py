"""The HTTP API: an ASGI application made from the table of operations. It holds no rules."""

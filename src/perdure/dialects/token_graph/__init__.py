"""token_graph."""

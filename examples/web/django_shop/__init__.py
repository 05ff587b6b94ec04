"""The shop under Django."""

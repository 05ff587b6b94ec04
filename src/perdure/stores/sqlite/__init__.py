"""The SQLite store: one file for all processes of a host that work on it or read it."""

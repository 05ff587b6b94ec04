"""Workflows written as async functions, run on a deterministic event loop and rebuilt from the log by replay."""

"""Programs: pure functions from what an execution remembers to what it wants next."""

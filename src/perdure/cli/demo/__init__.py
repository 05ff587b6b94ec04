"""The demo of `perdure demo`: an order whose workers are killed with SIGKILL, and that continues."""

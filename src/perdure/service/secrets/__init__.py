"""Secrets: where they are kept and how they are found. What puts them into calls, and hides them, is `perdure.runtime.call_secrets`."""

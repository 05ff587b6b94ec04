"""The definition format: documents read, checked, compiled, compared and edited."""

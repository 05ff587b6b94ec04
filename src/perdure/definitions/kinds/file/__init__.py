"""Files, below the one directory that a deployment allows."""

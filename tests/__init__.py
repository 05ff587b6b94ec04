"""Tests mirror the tree: what src/perdure/core does is tested in tests/core."""

"""The kinds of nodes: each does its work in the world, or in a sandbox."""

"""Graph programs: what a definition compiles to, and the walk over it."""

"""Graph programs: the form that a definition compiles to, and the walk over it."""

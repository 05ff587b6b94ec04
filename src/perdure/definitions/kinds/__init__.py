"""Steps: what does work in the world, or in a sandbox beside it."""

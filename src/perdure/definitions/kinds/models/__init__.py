"""Models: what is asked of a language model and what it answers, the same for all providers."""

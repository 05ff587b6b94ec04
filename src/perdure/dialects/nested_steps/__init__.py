"""nested_steps."""

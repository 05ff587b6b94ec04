"""A shop whose orders are durable workflows."""

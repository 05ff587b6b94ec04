"""Proposals of changes of definitions: their records, their rules, and what clients see of them."""

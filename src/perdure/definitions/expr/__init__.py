"""Expressions: values from values, and what they are held against. Pure."""

"""Expressions: references, templates and conditions, evaluated against a scope. Pure."""

"""Agents: workflows in which a model decides which tools to use, turn by turn. Each model call and each tool call is an operation of its own."""

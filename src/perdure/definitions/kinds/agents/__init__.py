"""Agents: workflows in which a model decides, turn by turn, which tools to use. Each model call and each tool call is an operation of its own."""

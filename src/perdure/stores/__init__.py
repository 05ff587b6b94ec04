"""Stores of logs and messages, changed by atomic commits. No store knows what a program or a step is."""

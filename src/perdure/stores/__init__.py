"""Stores: logs and mail, changed by one atomic commit. No store knows what a program or a step is."""

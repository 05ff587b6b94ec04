"""Proposal agents: a model writes or changes a definition from words, until it is valid and tried, and files it as a proposal. It never applies anything."""

"""The operations of the service: what clients, the HTTP API, the command line and models can ask of Perdure, each once.

An operation is a function whose first argument is the store, and whose others and result can travel over a network. `operation_table` has them all, with the
route and the role of each; schemas and documentation are derived from the functions.
"""

"""Sandboxes: confined processes that run the untrusted source text of definitions, and are killed when they exceed a limit.

A process has no environment, can open no file and start no process, and ends if its parent dies. JavaScript and jq run in it in interpreters that have
neither files nor network: code that breaks out of an interpreter finds an empty process instead of the engine.
"""

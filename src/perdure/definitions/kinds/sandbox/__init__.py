"""The sandbox: processes with nothing of the world in them, in which source text that nobody trusts runs, and which are killed when they overrun.

A process has no environment, can open no file and begin no process, and ends by itself should its parent die. In it, JavaScript and jq run in interpreters
that have neither files nor network in the first place: what breaks out of an interpreter finds an empty process, not the engine.
"""

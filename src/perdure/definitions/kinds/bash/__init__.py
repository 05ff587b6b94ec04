"""Shell commands: ``bash -lc`` in a process group of its own, all of whose processes end with it.

An engine that meets its first command starts one small process, which forks a keeper for each command (`keepers`). The keeper starts the shell, reads
what it says, and is the parent of every process below it whose own parent ends; so nothing gets away, however it detaches itself. When the shell has
ended, when nobody wants the result any more, or when the engine is gone however it went, the keeper ends all of them, and then itself.
"""

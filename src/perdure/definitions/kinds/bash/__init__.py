"""Shell commands: ``bash -lc`` in a process group of its own, all of whose processes end with it.

The first command of an engine starts a fork server, which forks one supervisor for each command. A supervisor starts the shell, reads its output, and is the
subreaper of all processes below it, so that none escapes by detaching itself. It ends all of them, and then itself, when the shell has ended, when the result
is no longer wanted, or when the engine has died.
"""

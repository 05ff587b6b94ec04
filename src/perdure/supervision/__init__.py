"""Supervision of child processes: each ends together with every process that it has started, also after a kill -9 of the engine.

A *supervisor* is a small process between the engine and one child. It holds one end of a socket or a pipe whose other end only the engine holds. When the
engine closes that end or dies, the kernel says so to the supervisor, which ends the whole process tree: SIGTERM, a grace period, SIGKILL.

`process_supervisor` is that rule, for the children of tasks (`child_supervisor`) and for shell commands (`perdure.definitions.kinds.bash`) alike.
`orphan_killer` serves processes that a library starts, which therefore can't have a supervisor. The sandboxes of `perdure.definitions.kinds.sandbox` need
none either: they can start no process, and end themselves when their socket is closed or their time is over.
"""

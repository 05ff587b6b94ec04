"""Every number that bounds an execution, with its unit in its name."""

BLOB_BYTES_MIN = 64 * 1024
"""Values of this size and above are stored as blobs, and the log holds a reference."""

VALUE_BYTES_MAX = 16 * 1024 * 1024
"""The largest value. A larger one is an error that names the operation."""

ERROR_TYPE_CHARACTERS_MAX = 500
"""The longest name of an exception's class that is kept."""

ERROR_MESSAGE_CHARACTERS_MAX = 10_000
"""The longest text of an exception that is kept; of a longer one, the beginning and the end."""

REMOVED_ERROR_CHARACTERS_MAX = 300
"""The longest text of an error that is kept of an execution that was removed."""

ERROR_TRACEBACK_CHARACTERS_MAX = 20_000
"""The longest traceback that is kept; of a longer one, the beginning and the end."""

ERROR_DATA_BYTES_MAX = 64 * 1024
"""The largest arguments and attributes of an exception that are kept, so that it can be rebuilt."""

NAME_BYTES_MAX = 1024
"""The longest name of an operation, branch, message or workflow, in UTF-8."""

MAILBOX_MESSAGES_MAX = 10_000
"""Messages that an execution holds without having consumed them; a further one is refused, with an event."""

INTERRUPTIONS_MAX = 10
"""Interruptions of one call in a row after which its execution parks as needs_attention."""

INTERRUPTION_WAIT_S = 0.1
"""The wait after a first interruption; it doubles with each further one in a row."""

INTERRUPTION_WAIT_MAX_S = 60.0
"""The longest wait after an interruption."""

UNDO_ENTRIES_MAX = 10_000
"""Operations of forgotten iterations that an execution keeps to undo them; with more it parks."""

GRACE_S = 30.0
"""How long a step in flight may continue after its execution failed or was cancelled, unless the step or the execution sets another grace."""

CLIENT_KEY_RETENTION_S = 24 * 3600.0
"""How long the key of a message from outside is remembered, so that sending it again has no effect."""

UNCLAIMED_MESSAGE_S = 7 * 24 * 3600.0
"""How long messages wait for an execution that never starts."""

EVENTS_PER_DECISION_MAX = 200_000
"""The most events that one message may cause; more is taken for a program that never waits."""

DEPTH_MAX = 100
"""The most ancestors of an execution that starts a child; more is taken for an endless recursion."""

ATTRIBUTES_MAX = 32
"""The most attributes of an execution."""

ATTRIBUTE_BYTES_MAX = 1024
"""The longest text of an attribute, in UTF-8."""

CONDITIONS_MAX = 32
"""The most conditions on attributes in one query."""

"""Codes of errors: the stable names by which Perdure's own errors are stored, matched and shown.

`ErrorInfo.type` holds the code of an error of Perdure, and the name of the class for an exception of a user. Every class of `core/errors.py` has its
code as `code`. Below are the codes of the failures that Perdure records without raising an exception, and those of the HTTP interface of workers
(``HTTP_``). A code is never changed and never used again for something else.
"""

from perdure.core.errors import BadAnswer, BadValue, DeadlineExceeded, NotFound, Removed, StoreUnavailable, Timeout, TooDeep, TooLarge, Unauthorized

TIMEOUT = Timeout.code
DEADLINE_EXCEEDED = DeadlineExceeded.code
TOO_LARGE = TooLarge.code
TOO_DEEP = TooDeep.code
BAD_VALUE = BadValue.code
BAD_ANSWER = BadAnswer.code
UNAUTHORIZED = Unauthorized.code
REMOVED = Removed.code
NOT_FOUND = NotFound.code
STORE_UNAVAILABLE = StoreUnavailable.code

INTERRUPTED = "interrupted"  # The process that performed an attempt is gone, and the step may not run twice.
ABANDONED = "abandoned"  # The attempt was in flight when its outcome was no longer wanted; the outcome is not known.
CANCELLED = "cancelled"  # The execution was cancelled, or the call was no longer wanted before it began.
EXPIRED = "expired"  # The execution had not begun when its time to begin was over.
REJECTED = "rejected"  # A person rejected an approval, or a reviewer rejected the result of a node.
OUTCOME_UNKNOWN = "outcome_unknown"  # The log no longer holds how it ended.
ENDLESS_DECISION = "endless_decision"  # The workflow continued without waiting for anything up to the limit of one decision.
WRONG_STORE = "wrong_store"  # A transactional step needs SQLite or Postgres, and the store is another.
UNKNOWN_STEP = "unknown_step"  # The worker has no step of this name.
UNKNOWN_KIND = "unknown_kind"  # The engine has no such kind of node.
UNKNOWN_PORT = "unknown_port"  # The node ended by a port from which no transition leads on.
UNKNOWN_VERSION = "unknown_version"  # The definition that is called has no such version.
BAD_INPUT = "bad_input"  # The input does not fit what the definition takes.
BAD_RESULT = "bad_result"  # The result of a node does not fit its schema.
SECRETS_UNAVAILABLE = "secrets_unavailable"  # A secret is used where secrets are not available.
NOT_APPROVED = "not_approved"  # A policy asked a person, who did not approve.
TOO_FEW_SUCCEEDED = "too_few_succeeded"  # Fewer items of an `each` succeeded than the node needs.
REPEAT_EXHAUSTED = "repeat_exhausted"  # A `repeat` ended its iterations without reaching its condition.
LOOP_EXHAUSTED = "loop_exhausted"  # A loop has more batches than its `max`.
FAILED = "failed"  # A `fail` node that names no type of its own.
AGENT_FAILED = "agent_failed"  # The agent that was asked could not answer.
ANSWER_REFUSED = "answer_refused"  # The model refused to answer, or its provider filtered the answer.
UNSAFE_LOOP = "unsafe_loop"  # The definition goes in a circle in which nothing waits.
EXCEEDED_MAX_STEPS = "exceeded_max_steps"  # The execution performed more nodes than `max_steps`.
EXCEEDED_MAX_FANOUT = "exceeded_max_fanout"  # A node leads to more nodes or items at once than `max_fanout`.
EXCEEDED_MAX_HOPS = "exceeded_max_hops"  # The execution took more transitions than `max_hops`.
EXCEEDED_MAX_BYTES = "exceeded_max_bytes"  # The values of the execution take more bytes than `max_bytes`.
EXCEEDED_CALLS = "exceeded_calls"  # The budget of model or tool calls is used up.
EXCEEDED_TOKENS = "exceeded_tokens"  # The budget of tokens is used up.
EXCEEDED_COST = "exceeded_cost"  # The budget in USD is used up.
TASK_FAILED = "task_failed"  # A program in another language failed a task without naming a type.
PROGRAM_FAILED = "program_failed"  # The program that performs a task ended with an exit code other than 0.
PROGRAM_NOT_STARTED = "program_not_started"  # The program that performs a task could not be started.

HTTP_BAD_REQUEST = "bad_request"  # The body is not what the request takes.
HTTP_NOT_JSON = "not_json"  # The content type is not `application/json`.
HTTP_ENCODED = "encoded"  # The body has a content encoding, such as gzip.
HTTP_METHOD_NOT_ALLOWED = "method_not_allowed"  # The path takes another method.
HTTP_INCOMPLETE = "incomplete"  # The connection was closed in the middle of a request.
HTTP_TOO_SLOW = "too_slow"  # The request took too long to arrive.
HTTP_HEADERS_TOO_LARGE = "headers_too_large"  # The request line and the headers are too large.
HTTP_TOO_MANY_CONNECTIONS = "too_many_connections"  # The process has as many connections as it may.
HTTP_WRONG_HOST = "wrong_host"  # Without a token, the Host header must be a name of this machine.
HTTP_NOT_SERVED = "not_served"  # The worker may not lease tasks of these queues here.
HTTP_STOPPING = "stopping"  # The process is about to stop and leases no more tasks.
HTTP_ALREADY_ANSWERED = "already_answered"  # The task has another answer, which counts.
HTTP_LEASE_EXPIRED = "lease_expired"  # The worker sent no heartbeat in time, and the task may be with another one.
HTTP_LEASE_LOST = "lease_lost"  # There is no such lease, it is another worker's, or the process that gave it is gone.
HTTP_NOT_WANTED = "not_wanted"  # The execution was cancelled, has ended, or continues without the task.


def error_code(kind: type[BaseException]) -> str:
    """Returns what `ErrorInfo.type` holds for an exception of this class: its code if it is one of Perdure's, else its name."""
    code = vars(kind).get("code")
    return code if isinstance(code, str) and kind.__module__.startswith("perdure.") else kind.__qualname__

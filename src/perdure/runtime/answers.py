"""Answers: what is said of work that is leased, in one way by whoever does it, in this process or outside of it.

An answer and the acknowledgement of the work are one post, and the answer that comes first counts.
"""

from uuid import uuid4

from perdure.core import limits, messages
from perdure.core.errors import ErrorInfo, LogDamaged
from perdure.core.mail import Ack, Mail, Send
from perdure.core.messages import Lost, Progress, Settle, Work, answer_key
from perdure.core.ops import Err, Ok, Outcome
from perdure.core.paths import text
from perdure.core.values import offload
from perdure.stores.base import Post

Answer = Settle | Lost


def read(mail: Mail) -> Work:
    """The work in mail to a queue.

    Raises:
        LogDamaged, LogVersionUnsupported, SealedPayload: it can't be read here.
    """
    work = messages.decode(mail.body)
    if not isinstance(work, Work):
        raise LogDamaged("it is no work")
    return work


def given_up(work: Work, deliveries: int) -> Answer | None:
    """What is said of work that is not done, because of what became of those who had it before; None, if it is to be done."""
    if deliveries > limits.INTERRUPTIONS_MAX:
        return Lost(work.path, work.attempt, deliveries)
    if deliveries > 1 and not work.idempotent:
        why = "its worker is gone, and it is not declared idempotent, so it was not run again"
        return Settle(work.path, work.attempt, Err("interrupted", 1, ErrorInfo("Interrupted", why)))
    return None


def not_begun(work: Work, deliveries: int) -> Lost:
    """What is said of work whose function was not called here, as nobody waits for it any more; who had it before may have called it."""
    return Lost(work.path, work.attempt, 0, begun=deliveries > 1)


def settled(work: Work, outcome: Outcome, blobs: dict[str, bytes]) -> Settle:
    """The answer with an outcome, of which a large value is put among `blobs`."""
    light = Ok(offload(outcome.value, blobs), outcome.port) if isinstance(outcome, Ok) else outcome
    return Settle(work.path, work.attempt, light)


def late(work: Work) -> Err:
    """The outcome of a try that has taken longer than it may."""
    return Err("timeout", 1, ErrorInfo("Timeout", f"no answer within {work.timeout_s:g} s"))


def post(mail: Mail, work: Work, answer: Answer, epoch: int, untold: bytes | None = None, blobs: dict[str, bytes] | None = None) -> Post:
    """An answer on its way, behind what the try has said of how far it is and was not `untold` before."""
    send = Send(work.execution, answer_key(work.path, work.attempt), messages.encode(answer))
    sends = (send,) if untold is None else (progress(work, untold), send)
    return Post(epoch=epoch, sends=sends, acks=(Ack(mail.to, mail.key),), blobs=tuple((blobs or {}).items()))


def progress(work: Work, said: bytes) -> Send:
    """How far a try is, on its way to the execution."""
    return Send(work.execution, f"progress:{text(work.path)}:{work.attempt}:{uuid4().hex}", messages.encode(Progress(work.path, work.attempt, said)))

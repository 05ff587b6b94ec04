"""Resume tokens: whoever has that of an approval can show that they were asked for this decision, and not for another one of the execution.

A token is an HMAC over the execution, the path of the approval, and its opening. The attempt is not part of it, so it stays the same whatever happens to the
process. It is a second proof beside the right to decide, and never in place of it.
"""

import hmac

import msgspec

from perdure.core.execution import Execution
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import APPROVAL_WORKFLOW, SpawnOperation
from perdure.core.paths import Key, path_text
from perdure.service.signing_secrets import digest_of, secrets_of

DOMAIN = b"perdure resume token"


class PendingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval that an execution waits for: the id by which it is decided, the path at which it was asked for, and since when.

    `resume_token` is there only for those who may decide.
    """

    id: str
    path: str
    requested_at_s: float
    resume_token: str | None = None


def pending_approvals(execution: Execution, secret: bytes) -> list[PendingApproval]:
    """Returns the approvals that an execution waits for, in the order of opening; with a `secret`, each with its token."""
    return [
        PendingApproval(
            id=pending.op.id,
            path=path_text(pending.path),
            requested_at_s=pending.opened_at_s,
            resume_token=resume_token(secret, execution.key, pending, pending.op.id) if secret else None,
        )
        for pending in execution.open.values()
        if isinstance(pending.op, SpawnOperation) and pending.op.workflow == APPROVAL_WORKFLOW
    ]


def resume_token(secret: bytes, key: Key, pending: PendingOperation, approval: str) -> str:
    """Returns the token of an approval."""
    said = msgspec.msgpack.encode((key, path_text(pending.path), approval, pending.number))
    return digest_of(next(iter(secrets_of(secret)), secret), DOMAIN, said).hex()


def approval_of_token(execution: Execution, secret: bytes, token: str) -> PendingApproval | None:
    """Returns the approval that a token was made for, if the execution still waits for it."""
    found = None
    for one in (pending for each in secrets_of(secret) for pending in pending_approvals(execution, each)):
        if one.resume_token is not None and hmac.compare_digest(one.resume_token.encode(), token.encode(errors="surrogatepass")):
            found = one
    return found

"""Votes that people have given and no engine has taken yet: they stand in the mail of their approval, and take effect when an engine runs."""

from perdure.core import messages, values
from perdure.core.errors import LogDamaged, LogVersionUnsupported, Undecodable
from perdure.core.paths import Key
from perdure.programs.code.approval import SHOWN, VOTES, Shown, Verdict, unfit, verdict
from perdure.programs.code.results import Vote
from perdure.service.access import Access
from perdure.service.repeating import read


async def pending(access: Access, key: Key) -> list[Vote]:
    """The votes in the mail of an approval, in the order in which an engine will take them."""
    found: list[Vote] = []
    for mail in await access.store.mail(key):
        try:
            message = messages.decode_message(mail.body)
            if isinstance(message, messages.Signal) and message.name == VOTES.name:
                found.append(values.decode(await access.payload(message.body), Vote, "a vote"))
        except (Undecodable, LogDamaged, LogVersionUnsupported):  # the engine that takes it says so, or sets it aside
            continue
    return found


async def upcoming(access: Access, key: Key) -> tuple[Shown, Verdict | None] | None:
    """How an approval stands once an engine has taken its pending votes, and how it is decided by them; None if it has not begun.

    Raises:
        NotFound: there is none of this key.
    """
    raw = (await read(access, key)).state.get(SHOWN)
    if raw is None:
        return None
    shown: Shown = values.decode(await access.payload(raw), Shown, "an approval")
    found = None
    for vote in await pending(access, key):
        if found is None and not unfit(shown, vote):
            shown = Shown(shown.request, shown.assignees, shown.asked_at_s, shown.due_at_s, (*shown.votes, vote))
            found = verdict(shown.request, shown.votes)
    return shown, found


async def are_decided(access: Access, approvals: list[Key]) -> bool:
    """Whether pending votes decide each of these approvals, one at least."""
    found = [await upcoming(access, key) for key in approvals]
    return bool(found) and all(one is not None and one[1] is not None for one in found)

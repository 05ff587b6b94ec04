"""Renders recordings as text: a list of them, and one with its calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from perdure.cli import terminal_text
from perdure.cli.output import compact_json
from perdure.cli.plain_text import TextCell, TextTable, cell, fact_lines
from perdure.operations.on_recordings import ListedRecording, RecordingDetails, RecordingSuggestions, SuggestedLoop, SuggestedReference
from perdure.recording.recording_view import RecordedCall

VALUE_COLUMNS = 100
_STYLES = {"completed": "good", "failed": "bad", "refused": "bad", "in_doubt": "warn", "running": "live", "waiting": "live", "cancelled": "dim"}


def recording_table(found: Sequence[ListedRecording]) -> TextTable:
    """Recordings, a row each."""
    return TextTable(("ID", "STATE", "BEGAN (UTC)", "BY", "TITLE"), tuple(_row(one) for one in found))


def _row(one: ListedRecording) -> tuple[TextCell, ...]:
    state = ("idle" if one.idle else "busy") if one.open else "ended"
    style = {"idle": "", "busy": "live", "ended": "dim"}[state]
    return cell(one.id, "strong"), TextCell(state, style), cell(terminal_text.utc_time(one.created_at_s)), cell(one.initiator), cell(one.title)


def recording_lines(found: RecordingDetails) -> Iterator[Sequence[TextCell]]:
    """A recording: what is known of it, and its calls."""
    yield cell(found.id, "strong"), cell(found.title)
    about = [
        ("state", "open" if found.open else "ended"),
        ("began", f"{terminal_text.utc_time(found.started_at_s)} UTC"),
        ("input", _short(found.input) if found.input else ""),
        ("presets", ", ".join(found.presets_to_come)),
    ]
    yield from fact_lines(about, 8)
    yield ()
    for call in found.calls:
        yield from _call_lines(call)
    if hidden := found.calls_in_all - len(found.calls):
        yield (cell(f"{terminal_text.count(hidden, 'later call')} {'is' if hidden == 1 else 'are'} not shown: the console shows all", "warn"),)


def _call_lines(call: RecordedCall) -> Iterator[Sequence[TextCell]]:
    state = f"{call.state}, preset" if call.is_preset else call.state
    yield TextCell(f"{call.number:>3}"), cell(f"@{call.step}", "strong"), TextCell(state, _STYLES[call.state]), cell(f"{call.tool}({_short(call.arguments)})")
    if call.error:
        yield (cell(f"      {call.error}", "bad"),)
    elif call.value is not None:
        yield (cell(f"      {_short(call.value)}", "dim"),)


def suggestions_for(found: RecordingSuggestions, steps: Collection[str]) -> RecordingSuggestions:
    """Returns what was suggested for the calls of some steps: the references in them, and the loops that they are part of."""
    return msgspec.structs.replace(
        found,
        references=[one for one in found.references if one.call in steps],
        loops=[one for one in found.loops if not set(steps).isdisjoint(one.calls)],
    )


def suggestion_lines(found: RecordingSuggestions, *, weak: bool) -> Iterator[Sequence[TextCell]]:
    """What literals may have been: the key, the literal and what it may have been, and why."""
    every: list[SuggestedReference | SuggestedLoop] = [*found.references, *found.loops]
    shown = [one for one in every if one.found or weak]
    for one in shown:
        what = (
            f"{_short(one.literal)} → {one.expression or one.reference}"
            if isinstance(one, SuggestedReference)
            else f"{len(one.calls)} calls → each of {one.items}"
        )
        sure = f"{'likely' if one.found else 'possible'}, {one.confidence:.0%}"
        yield cell(one.key, "strong"), TextCell(sure, "good" if one.found else "dim"), cell(what)
        yield (cell(f"      {one.why}", "dim"),)
    if hidden := len(every) - len(shown):
        yield (cell(f"{terminal_text.count(hidden, 'more suggestion')} that {'is' if hidden == 1 else 'are'} only possible: --weak", "dim"),)
    elif not shown:
        yield (cell("no literal is a value that was known before", "dim"),)
    if found.is_partial:
        yield (cell("the recording is larger than what is searched, so there may be more", "warn"),)


def _short(value: object) -> str:
    text = compact_json(value)
    return text if len(text) <= VALUE_COLUMNS else f"{text[: VALUE_COLUMNS - 1]}…"

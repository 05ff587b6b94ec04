"""The look of SVG pictures: colours of states and lines, on light and on dark ground."""

from perdure.programs.graph.picture import State

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

COLOR_OF: dict[State, str] = {
    "completed": "green",
    "performing": "blue",
    "ending": "blue",
    "retrying": "yellow",
    "interrupted": "yellow",
    "parked": "yellow",
    "waiting": "yellow",
    "waiting_approval": "violet",
    "skipped": "grey",
    "failed": "red",
    "abandoned": "red",
    "cancelled": "grey",
    "not_taken": "faint",
    "not_reached": "plain",
}
LIGHT: dict[str, tuple[str, str]] = {
    "green": ("#dafbe1", "#1f883d"),
    "blue": ("#ddf4ff", "#0969da"),
    "yellow": ("#fff8c5", "#9a6700"),
    "violet": ("#fbefff", "#8250df"),
    "grey": ("#f6f8fa", "#6e7781"),
    "red": ("#ffebe9", "#cf222e"),
    "faint": ("#fbfbfc", "#c4cad1"),
    "plain": ("#ffffff", "#6e7781"),
}
"""For each colour the ground and the edge of boxes."""

DARK: dict[str, tuple[str, str]] = {
    "green": ("#12301c", "#3fb950"),
    "blue": ("#0c2d5c", "#58a6ff"),
    "yellow": ("#3a2d06", "#d29922"),
    "violet": ("#2f1a55", "#bc8cff"),
    "grey": ("#161b22", "#6e7681"),
    "red": ("#4c1518", "#f85149"),
    "faint": ("#0f1319", "#3d444d"),
    "plain": ("#161b22", "#8b949e"),
}
GROUNDS = ("#ffffff", "#0d1117")
INKS = ("#1f2328", "#e6edf3")
FAINT = ("#57606a", "#9da7b3")
LINES = ("#6e7781", "#8b949e")
TAKEN = ("#1f883d", "#3fb950")
BACK = ("#8250df", "#bc8cff")
BLOCK_OPACITY = 0.45


def _colors(colors: dict[str, tuple[str, str]], dark: bool) -> str:
    rules = [
        f".ground {{ fill: {GROUNDS[dark]} }}",
        f"text {{ fill: {INKS[dark]} }}",
        f".detail, .caption, .label {{ fill: {FAINT[dark]} }}",
        f".label {{ stroke: {GROUNDS[dark]} }}",
        f".line {{ stroke: {LINES[dark]} }} .taken {{ stroke: {TAKEN[dark]} }} .back {{ stroke: {BACK[dark]} }}",
        f"#line path {{ fill: {LINES[dark]} }} #taken path {{ fill: {TAKEN[dark]} }} #back path {{ fill: {BACK[dark]} }}",
        *(
            f".{state} rect {{ fill: {colors[name][0]}; stroke: {colors[name][1]} }} .{state} .sign {{ fill: {colors[name][1]} }}"
            for state, name in COLOR_OF.items()
        ),
    ]
    return "\n".join(rules)


def _marker(kind: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0.5 L8 4 L0 7.5 Z"/></marker>'
    )


STYLE = f"""<style>
text {{ font-family: {FONT} }}
.name {{ font-size: 13px; font-weight: 600 }}
.sign {{ font-size: 13px; font-weight: 700 }}
.detail, .caption, .label {{ font-size: 11.5px }}
.caption {{ font-style: italic }}
.label {{ stroke-width: 4px; paint-order: stroke; stroke-linejoin: round }}
.way {{ fill: none; stroke-width: 1.3 }}
.taken {{ stroke-width: 2.4 }}
.dashed {{ stroke-dasharray: 5 3 }}
rect {{ stroke-width: 1.2 }}
.skipped rect, .cancelled rect, .not_taken rect {{ stroke-dasharray: 4 3 }}
.block > rect {{ fill-opacity: {BLOCK_OPACITY} }}
.not_taken text, .skipped text, .cancelled text {{ fill-opacity: 0.65 }}
{_colors(LIGHT, False)}
@media (prefers-color-scheme: dark) {{
{_colors(DARK, True)}
}}
</style>
<defs>{_marker("line")}{_marker("taken")}{_marker("back")}</defs>"""
"""The style sheet and the heads of arrows."""

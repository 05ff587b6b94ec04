"""Documents for tests of the catalog."""

from perdure.service.catalog_changes import Edit

ADA, BEN = Edit("ada"), Edit("ben")


def document(value: int = 1, name: str = "invoice", version: str = "") -> bytes:
    """A definition whose result is `value`."""
    declared = f"version: {version}\n" if version else ""
    return f"perdure: 1\nname: {name}\n{declared}vars: {{n: 0}}\nsteps:\n  - {{id: note, set: {{n: {value}}}}}\noutput: '@vars.n'\n".encode()

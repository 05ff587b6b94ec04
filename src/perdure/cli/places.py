"""Places: what definitions may reach and do where they are run, as options of commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.settings import F

if TYPE_CHECKING:
    from perdure.programs.graph.policy import Policy
    from perdure.steps.deployment import Deployment
    from perdure.steps.models.sources import Source


class Place(NamedTuple):
    """Where definitions are run: what their steps may reach there, and what they may do."""

    deployment: Deployment
    policy: Policy
    blobs: Mapping[str, Any]


def blobs_option(command: F) -> F:
    """Where the contents are that definitions refer to."""
    said = "Where definitions have what they refer to as cas://sha256:…, a file each, named like the reference."
    return click.option("--blobs", metavar="DIR", envvar="PERDURE_BLOBS", help=said)(command)


def contents(directory: str | None) -> Mapping[str, Any]:
    """The contents in a directory; the command ends if it is none."""
    from perdure.content_directory import ContentDirectory
    from perdure.core.errors import BadValue

    try:
        return {} if directory is None else ContentDirectory(directory)
    except BadValue as error:
        raise Outcome(Exit.INPUT, f"--blobs: {error}") from error


def options(command: F) -> F:
    """What steps may reach, what definitions may do, and what they refer to."""
    command = blobs_option(command)
    said = "Rules that hold whatever a definition says: who may start what, use which tools, go where, and what a person is asked before."
    command = click.option("--policy", metavar="FILE", envvar="PERDURE_POLICY", help=said)(command)
    said = "Where models are asked: their names, and for each its provider."
    command = click.option("--models", metavar="FILE", envvar="PERDURE_MODELS", help=said)(command)
    said = "Where steps of bash work, a directory for each execution."
    command = click.option("--work", metavar="DIR", envvar="PERDURE_WORK", help=said)(command)
    said = "From what all shell commands are kept: nothing, the network, or all but their directory."
    command = click.option("--isolate", type=click.Choice(["none", "network", "all"]), default="none", envvar="PERDURE_ISOLATE", help=said)(command)
    said = "What steps may do that they may not of themselves: bash, http:HOST for a private address, file:DIRECTORY for files below it. Several with commas."
    return click.option("--allow", multiple=True, metavar="WHAT", envvar="PERDURE_ALLOW", help=said)(command)


def place(given: Mapping[str, Any]) -> Place:
    """What the options say."""
    from perdure.programs.graph.policy import NO_POLICY
    from perdure.steps.deployment import Allowed, Deployment

    work = Deployment.work if given["work"] is None else Path(given["work"])
    known = {} if given["models"] is None else models(given["models"])
    deployment = Deployment(Allowed.of(given["allow"]), work, known, isolate=given["isolate"])
    rules = NO_POLICY if given["policy"] is None else policy(given["policy"])
    return Place(deployment, rules, contents(given["blobs"]))


def elsewhere(blobs: str | None) -> Place:
    """The place of definitions that are run elsewhere, and only read here."""
    from perdure.programs.graph.policy import NO_POLICY
    from perdure.steps.deployment import NOTHING_MORE

    return Place(NOTHING_MORE, NO_POLICY, contents(blobs))


def models(file: str) -> Mapping[str, Source]:
    """The models in a file; the command ends if it has none."""
    from perdure.cli import documents
    from perdure.core.errors import BadValue
    from perdure.steps.models.sources import load

    try:
        return load(file)
    except BadValue as error:
        raise Outcome(Exit.INPUT, str(error)) from error
    except OSError as error:
        raise Outcome(Exit.INPUT, f"{documents.name(file)} can't be read: {error.strerror or error}") from error


def policy(file: str) -> Policy:
    """The policy in a file; the command ends if it is none."""
    from perdure.cli import documents
    from perdure.core.errors import BadValue
    from perdure.programs.format.parse import parsed
    from perdure.programs.graph.policy import Policy

    read = parsed(documents.text(file))
    if read.findings:
        documents.refuse(file, read.findings)
    try:
        return Policy.read(read.document)
    except BadValue as error:
        raise Outcome(Exit.INPUT, f"{documents.name(file)} is no policy: {error}") from error

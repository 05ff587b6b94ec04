"""The command `init`, which writes a project to begin with."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.project_templates import Project, template_names
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import json_option, value_format


@click.command("init", cls=CliCommand)
@click.argument("directory", metavar="[DIR]", default=".")
@click.option("--template", type=click.Choice(template_names()), default="script", show_default=True, help="What kind of project.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@json_option
@value_format
def init(*, directory: str, template: str, force: bool, as_json: bool, format: str) -> None:
    """Write a small project in DIR (default: here): a workflow, its tests, and a README with the commands to run it.

    Files that are there already are not touched: the command names them and writes nothing, unless --force is given.
    """
    from perdure.cli import output, project_templates

    place = Path(directory)
    project = project_templates.project_of(template, place.resolve())
    present = _present_files(place, project)
    different = [f"  {path}" for path, same in present.items() if not same]
    if different and not force:
        said = [f"{_shown(place)} has files that the project would replace; nothing was written", *different]
        raise CommandExit(ExitCode.INPUT, "\n".join([*said, "name another DIR; --force replaces them"]))
    written = [path for path in project.files if not present.get(path, False)]
    _write(place, project, written, force)
    enter = [] if place.resolve() == Path.cwd() else [f"cd {quote(f'./{directory}' if directory.startswith('-') else directory)}"]
    commands = [*enter, *project.commands]
    if as_json or format == "json":
        data = {"directory": str(place.resolve()), "name": project.name, "template": template}
        output.print_value({**data, "written": [str(path) for path in written], "next": commands}, "json")
    else:
        _print(place, project, written, commands)


def _shown(place: Path) -> str:
    from perdure.cli import terminal_text

    return terminal_text.clean(str(place.resolve()))


def _present_files(place: Path, project: Project) -> dict[Path, bool]:
    """The paths of the project at which there is something, and whether that is the file of the project.

    Raises:
        CommandExit: the directory can't be used.
    """
    try:
        if place.exists() and not place.is_dir():
            raise CommandExit(ExitCode.INPUT, f"{_shown(place)} is not a directory\nname a directory that is empty, or one that does not exist yet")
        return {path: _has_text(place / path, text) for path, text in project.files.items() if (place / path).exists() or (place / path).is_symlink()}
    except OSError as error:
        raise _unusable(place, error) from error


def _has_text(file: Path, text: str) -> bool:
    return file.is_file() and file.read_bytes() == text.encode()


def _write(place: Path, project: Project, paths: list[Path], force: bool) -> None:
    """Writes files; without `force`, none that has appeared in the meantime is replaced. Of a symbolic link, the link is replaced and not what it points to.

    Raises:
        CommandExit: a file can't be written. Run again, the command writes those that are missing.
    """
    try:
        for file, text in ((place / path, project.files[path]) for path in paths):
            file.parent.mkdir(parents=True, exist_ok=True)
            if force and file.is_symlink():
                file.unlink()
            with file.open("w" if force else "x", encoding="utf-8") as opened:
                opened.write(text)
    except OSError as error:
        raise _unusable(place, error) from error


def _unusable(place: Path, error: OSError) -> CommandExit:
    from perdure.cli import terminal_text

    file = terminal_text.clean(str(error.filename or place))
    return CommandExit(
        ExitCode.INPUT, f"the project can't be written to {_shown(place)}: {file}: {error.strerror or error}\nname a directory that you may write to"
    )


def _print(place: Path, project: Project, written: list[Path], commands: list[str]) -> None:
    from perdure.cli import terminal_text

    if written:
        click.echo(
            f"{terminal_text.count(len(written), 'file')} of the project {project.name} {'is' if len(written) == 1 else 'are'} written to {_shown(place)}:"
        )
        for path in written:
            click.echo(f"  {path}")
    else:
        click.echo(f"{_shown(place)} has the project {project.name} already; nothing was changed")
    click.echo("Next:")
    for command in commands:
        click.echo(f"  {terminal_text.clean(command)}")

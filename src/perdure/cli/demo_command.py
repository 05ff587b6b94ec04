"""The command `demo`, which shows an order that survives the kills of its workers."""

from __future__ import annotations

import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions


@click.command("demo", cls=CliCommand)
@click.option("--rejected", is_flag=True, help="Have the customer reject the order, so that all is given back.")
@click.option("--interactive", is_flag=True, help="You press the keys: k kills a worker, a and r are the customer's decision, q quits.")
@click.pass_obj
def demo(settings: GlobalOptions, /, *, rejected: bool, interactive: bool) -> None:
    """Watch an order survive kill -9 of its workers, in a few seconds.

    All its files are in a temporary directory, which is removed at the end; other databases are not touched. At the end it checks that nothing was done
    twice, and that the result is that of an order without a kill. Without a terminal, --interactive has no effect.

    With --db postgresql://user@host/database, the order is in that database, and stays there. Use one for trying things: every engine there that knows a
    workflow "order" would run it.
    """
    import shutil  # here, because each command imports this module
    import tempfile

    from perdure.cli.demo import demo_keys, demo_play
    from perdure.cli.demo.shop_processes import DemoStuck
    from perdure.stores.configured_store import is_postgres, shown_url

    if (db := settings.database()) is not None and not is_postgres(db):
        raise click.UsageError(f"--db {shown_url(db)} is not postgresql://user@host/database; without --db, the demo makes a file of its own.")
    live = interactive and sys.stdin.isatty() and sys.stdout.isatty()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    player = demo_keys.Person() if live else demo_play.rejected() if rejected else demo_play.approved()
    directory = Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    try:
        with demo_keys.keys_at_once() if live else nullcontext():
            false = demo_play.play(directory, player, db or "")
    except DemoStuck as stuck:
        raise CommandExit(ExitCode.DEFECT, str(stuck)) from stuck
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if false:
        raise CommandExit(ExitCode.DEFECT, f"not true: {'; '.join(false)}")

"""The command line `hermes`. Each command has its own file, imported only when it is used."""

from __future__ import annotations

import difflib
import gc
import importlib
import keyword
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.shell_completion import CompletionItem

from agent.errors import HermesError

if TYPE_CHECKING:
    from gateway.config.loader import LoadedConfig

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect it."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of every command, in `ctx.obj`."""

    config_path: Path | None = None


def load_config(options: Options, *, log_level: str = "", lenient: bool = False) -> LoadedConfig:
    """Load the configuration, and say if a `hermes.yaml` in the current directory is ignored.

    `log_level` is for commands whose output is a result. `lenient` prints mistakes and continues without the values.
    """
    from gateway.config.loader import load, load_lenient  # noqa: PLC0415 - not for `--help`

    if log_level:
        from gateway.observability.logs import configure_logging  # noqa: PLC0415 - slow to import

        configure_logging(log_level, "human")
    loaded, refused = load_lenient(options.config_path) if lenient else (load(options.config_path), None)
    if refused:
        click.echo(f"hermes: {refused}", err=True)
    tell_ignored(loaded.ignored, loaded.source)
    return loaded


@cache
def tell_ignored(ignored: Path | None, used: str) -> None:
    """Say once per process that a file is ignored."""
    if ignored:
        click.echo(f"hermes: {ignored_sentence(ignored, used)}", err=True)


def ignored_sentence(ignored: Path, used: str) -> str:
    return (
        f"{ignored} is ignored; settings come from {used}. "
        f"If you trust that file: `hermes --config {ignored.name} ...`."
    )


class Entry(NamedTuple):
    """A command in `hermes --help`, and its module."""

    section: str
    module: str
    summary: str


COMMANDS = {
    "run": Entry("Talk", "run_command", "Start the gateway: web chat and every platform that is on."),
    "chat": Entry("Talk", "chat", "Talk to the agent in this terminal, or ask once with -q."),
    "sessions": Entry("Look", "sessions", "List, read, search and export conversations."),
    "doctor": Entry("Look", "doctor", "Check this installation and say what to fix."),
    "status": Entry("Look", "status", "Show what Hermes is doing now, and what it has cost today."),
    "usage": Entry("Look", "status", "Show tokens and cost by day, person or model."),
    "logs": Entry("Look", "logs_command", "Read the log of the gateway."),
    "backup": Entry("Keep", "backup", "Copy everything into one file, also while the gateway runs."),
    "restore": Entry("Keep", "backup", "Replace the current state with a backup."),
    "export": Entry("Keep", "export", "Write conversations to files: JSONL, Markdown or HTML."),
    "import": Entry("Keep", "import_command", "Import conversations from hermes-agent, Telegram or Discord."),
    "migrate-store": Entry("Keep", "migrate_store", "Copy the store to PostgreSQL, or back to a file."),
    "setup": Entry("Set up", "setup", "Choose a model, connect bots, write hermes.yaml."),
    "pairing": Entry("Set up", "pairing", "Allow people to talk to your bots, or revoke it."),
    "config": Entry("Set up", "config_commands", "Check or show the configuration."),
    "plugins": Entry("Set up", "plugins", "List, enable and disable plugins, choose the context engine."),
    "service": Entry("Set up", "service", "Run Hermes as a service of this user, under systemd."),
    "completion": Entry("Set up", "completion", "Print the completion script for your shell."),
}


def _take_config(command: click.Command) -> None:
    """Add `--config` to the command and its subcommands, so that the option may also follow the command."""
    if all("--config" not in param.opts for param in command.params):
        command.params.append(
            click.Option(
                ["--config"],
                type=click.Path(path_type=Path),
                metavar="PATH",
                help="Use this hermes.yaml.",
                expose_value=False,
                callback=_choose_config,
            )
        )
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _take_config(below)


def _choose_config(ctx: click.Context, param: click.Parameter, given: Path | None) -> None:
    before = ctx.obj.config_path if isinstance(ctx.obj, Options) else None
    if given is None:
        return
    if before is not None and given.absolute() != before.absolute():
        raise click.UsageError(f"--config names two files: {before} and {given}.", ctx)
    ctx.obj = Options(given)


class CommandIndex(click.Group):
    """Lists all commands by name and summary, so that help and completion import none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"{__name__}.{COMMANDS[cmd_name].module}")
        name = cmd_name.replace("-", "_")
        # `import` is a Python keyword.
        command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        assert isinstance(command, click.Command)
        _take_config(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "`hermes --help` lists them."
            ctx.fail(f"There is no command '{args[0]}'. {hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands before the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name.ljust(width), entry.summary)
                        for name, entry in COMMANDS.items()
                        if entry.section == section
                    ]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=CommandIndex,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with `hermes chat`, or `hermes run` and a browser. Neither needs a key.",
)
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Use this hermes.yaml. Without it: $HERMES_CONFIG, then $HERMES_HOME/hermes.yaml. May follow the command.",
)
@click.version_option(package_name="hermes-gateway", prog_name="hermes")
@click.pass_context
def cli(ctx: click.Context, config_path: Path | None) -> None:
    """Hermes: one agent, wherever you talk to it."""
    ctx.obj = Options(config_path)


def main() -> None:
    """Run the command line. Turns errors into a sentence and an exit code; a bug keeps its traceback."""
    try:
        code = cli.main(prog_name="hermes", standalone_mode=False)
        sys.stdout.flush()
    except HermesError as error:
        click.echo(f"hermes: {error}", err=True)
        code = error.exit_code
    except click.UsageError as error:
        error.show()  # with the usage
        code = error.exit_code
    except click.ClickException as error:
        click.echo(f"hermes: {error.format_message()}", err=True)
        code = error.exit_code
    except click.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe is gone. Python would report it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    # Garbage collection of the model library would delay the exit by seconds.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)

"""`hermes completion`: prints shell completion scripts."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HOW = """\
\b
bash: hermes completion bash > ~/.local/share/bash-completion/completions/hermes
zsh:  hermes completion zsh > "${fpath[1]}/_hermes"
fish: hermes completion fish > ~/.config/fish/completions/hermes.fish"""


@click.command(epilog=_HOW)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for your shell."""
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "hermes", "_HERMES_COMPLETE").source())

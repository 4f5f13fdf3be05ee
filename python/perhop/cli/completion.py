"""`perhop completion`: completion of commands in a shell."""

from __future__ import annotations

import os
from typing import Final

import click

from perhop.cli.output import document

__all__ = ["complete", "completion"]

_VARIABLE: Final = "_PERHOP_COMPLETE"
"""The variable of the environment by which a shell asks for completions."""

_EXAMPLES: Final = """\b
Examples:
  perhop completion bash >> ~/.bashrc
  perhop completion zsh >> ~/.zshrc
  perhop completion fish > ~/.config/fish/completions/perhop.fish
"""


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion of perhop for a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, shell
    root = context.find_root().command
    # Not `source`, which would run the shell to find its version.
    text = kind(root, {}, "perhop", _VARIABLE)
    document(text.source_template % text.source_vars())


def complete(command: click.Command) -> None:
    """Answer a shell that asks for completions, and exit; return if none does."""
    if asked := os.environ.get(_VARIABLE):
        from click.shell_completion import shell_complete

        raise SystemExit(shell_complete(command, {}, "perhop", _VARIABLE, asked))

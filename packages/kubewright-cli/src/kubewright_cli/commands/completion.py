"""`kubewright completion`: scripts that complete commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kubewright_cli import console


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, for its startup file.

    \b
    Examples:
      echo 'eval "$(kubewright completion bash)"' >> ~/.bashrc
      echo 'eval "$(kubewright completion zsh)"' >> ~/.zshrc
      kubewright completion fish > ~/.config/fish/completions/kubewright.fish
    """
    root = context.find_root()
    script = get_completion_class(shell)
    assert script is not None, f"click completes for {shell}"
    console.say(script(root.command, {}, "kubewright", "_KUBEWRIGHT_COMPLETE").source())

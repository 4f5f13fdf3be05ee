"""The commands of Linux from which a policy was read."""

from typing import Annotated

from pydantic import Field

from perhop.scenario.model.base import Model

MOST_COMMANDS = 4096
"""The most commands that a policy keeps."""

Words = Annotated[tuple[Annotated[str, Field(max_length=65_536)], ...], Field(min_length=2)]


class Script(Model):
    """Commands that the kernel engine runs in place of its own for a policy.

    `perhop run script.sh` writes it; nothing is executed by a shell.
    """

    interface: str
    """The interface of the commands, whose place that of the link takes."""

    commands: Annotated[tuple[Words, ...], Field(min_length=1, max_length=MOST_COMMANDS)]
    """The program (`tc`, `nft`, `ip`, `iptables` or `ip6tables`) and its words; those of `nft` are
    the lines of a file."""

    classes: dict[str, str] = Field(default_factory=dict)
    """The class of Linux that counts the packets of a class, such as ``1:10``; others are not
    counted."""

    policy: str
    """What the policy and its shaper were when the commands were read, as a digest: a policy that
    was changed since has no commands."""

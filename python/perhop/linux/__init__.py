"""A scenario's network in Linux: commands of tc, nft and ip.

==============  ================================================================================
`mapping`       a scenario as the commands for every node; start here
`tree`          a policy as classes of HTB, …
`qdiscs`        … each with a queue
`rules`         classes, marks and load balancing, as rules of nftables
`policers`      policers, as actions of tc or rules of nftables
`routes`        paths, as routes of Linux
`tunnels`       tunnels as devices, and the routes into them
`given`         commands of a user's script in place of those for a policy
`script`        the commands as a text to read and to paste
`gaps`          features that Linux lacks, each with its place in the scenario
`nft`           nftables: chains as text, conditions, and its listings
`htb`           a class of HTB in the syntax of tc
`buckets`       depths of the token buckets of tc and nftables
`commands`      execution of commands, with one error for every failure
`probe`         features of this kernel
`clock`         the state of the system clock
==============  ================================================================================

Only `commands` and `probe` run anything; the rest are functions.
"""

from perhop.linux.gaps import Gap, refuse
from perhop.linux.mapping import Interface, Mapping, Step, device_names, mapping
from perhop.linux.script import one_line, script
from perhop.linux.tree import Htb, HtbClass
from perhop.scenario.resolve import next_hops

__all__ = [
    "Gap",
    "Htb",
    "HtbClass",
    "Interface",
    "Mapping",
    "Step",
    "device_names",
    "mapping",
    "next_hops",
    "one_line",
    "refuse",
    "script",
]

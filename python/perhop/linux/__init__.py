"""A scenario's network in Linux: commands of tc, nft and ip.

==============  ================================================================================
`mapping`       a scenario as the commands for every node; start here
`tree`          a policy as classes of HTB, …
`qdiscs`        … each with a queue
`rules`         what matches, marks and balances, as rules of nftables
`policers`      what polices, as actions of tc or rules of nftables
`routes`        paths, as routes of Linux
`script`        the commands as a text to read and to paste
`gaps`          what Linux cannot express, each with its place in the scenario
`nft`           nftables: chains as text, conditions, and what it lists
`htb`           a class of HTB in tc's words
`buckets`       what the token buckets of tc and nftables hold
`commands`      commands run, every failure as one error
`probe`         what this kernel has
`clock`         the state of the system clock
==============  ================================================================================

Only `commands` and `probe` run anything; the rest are functions.
"""

from perhop.linux.gaps import Gap, refuse
from perhop.linux.mapping import Interface, Mapping, Step, device_names, mapping
from perhop.linux.script import script
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
    "refuse",
    "script",
]

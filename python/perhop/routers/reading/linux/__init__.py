"""Reading scripts of tc and nft on Linux, and the state of a running machine.

==============  ================================================================================
`reader`        the policies of interfaces; start here
`shell`         scripts as the commands that they would run
`words`         variables, quotes and arithmetic
`elsewhere`     commands that run others, which are not read
`tc`            commands of tc, and the interfaces that they make …
`changes`       … what a change of them keeps …
`model`         … of qdiscs, classes and filters
`handles`       handles of filters, and the order of these
`refusals`      commands that tc refuses
`filters`       classifiers and actions
`u32`           comparisons of bits as conditions on headers
`nft`           chains of nftables, and what they make of packets: …
`nft_text`      … statements in its text …
`nft_rule`      … conditions and statements of rules
`iptables`      commands of iptables, as such rules
`translation`   rules of NAT, and classes that compare what it changes
`classify`      packets on their way through filters
`tree`          qdiscs with classes as policies
`sharing`       shares of classes
`queues`        qdiscs without classes as queues
`cake`          CAKE
`netem`         delay, losses and duplicates of interfaces
`policers`      policers
`units`         rates, sizes, times and handles of tc
`state`         the outputs of `tc show` and `nft list`: …
`output`        … their objects and lines, with places
`tc_json`       … objects of tc as commands
`nft_json`      … objects of nft as rules
`ledger`        the fate of every line
==============  ================================================================================
"""

from perhop.routers.reading.linux.reader import read

__all__ = ["read"]

"""Configurations of routers from scenarios, a module for each family.

================  ============================================================================
`write`           a scenario as the configuration of a family; start here
`plan`            the ends of links that it covers, with values and places resolved
`packets`         the packets of classes, as lists of conditions
`draft`           gaps, approximations, names and named blocks
`ios`             Cisco IOS: class maps, policy maps, interfaces, …
`ios_acl`         … with access lists, …
`ios_queues`      … queue limits and WRED
`junos`           Junos: schedulers, forwarding classes, interfaces, …
`junos_filters`   … with filters and policers
`vyos`            shapers of VyOS
`altq`            altq.conf
`pf`              pf.conf with `altq`
`altq_queues`     what both have in common, …
`altq_curves`     … with service curves
`tc`              Linux, by `perhop.linux`
================  ============================================================================

What a family cannot express is a gap (`perhop.linux.gaps`), with its place in the scenario.
"""

from perhop.routers.writing.write import FAMILIES, Family, write

__all__ = ["FAMILIES", "Family", "write"]

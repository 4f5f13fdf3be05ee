"""Configurations of Cisco IOS and IOS-XE.

==============  ===================================================================
`tree`          statements with their lines, whether indented or not
`account`       what became of each line; the defaults that were applied
`unchecked`     statements that are taken at their word
`defaults`      the platform, and what it leaves to defaults
`numbers`       numbers, rates and code points as IOS spells them
`addresses`     wildcard masks
`ports`         names and ranges of ports
`groups`        object groups
`entries`       entries of access lists
`access_lists`  access lists as sets of packets
`classes`       class maps as sets of packets
`police`        policers
`queues`        queue limits, random early detection, fair queueing
`actions`       the statements of a class
`shares`        the guarantees of classes
`refusals`      what IOS refuses, and why
`policies`      policy maps, with the packets of their classes
`building`      policies of scenarios from them
`legacy`        statements from before policy maps
`ignored`       statements that are not modelled, and why
`interfaces`    rates of interfaces, and the policies at them
`reader`        all of it
==============  ===================================================================
"""

from perhop.routers.reading.ios.reader import read

__all__ = ["read"]

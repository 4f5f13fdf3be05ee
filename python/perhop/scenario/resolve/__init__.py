"""Values that follow from the data of a scenario, valid or not.

================  ============================================================================
`scenario`        instants, names of directions, addresses and ports
`elements`        all elements of one kind, with their places
`shares`          rates of classes, and all classes at the end of a link
`curves`          service curves of classes, and sums of them
`nesting`         policies that divide classes of others
`steps`           the network after each change
`paths`           the paths that packets take
`applications`    empty paths of applications, and the rates of their requests
`background`      background traffic as flows between hosts
`servers`         the iperf3 server that each flow uses on a live network
`packets`         the packets that a class matches, and those that a scenario sends
`sizes`           lengths of packets
================  ============================================================================
"""

from perhop.scenario.resolve.applications import EmptyPath, empty_path, mean_gap
from perhop.scenario.resolve.background import background_path
from perhop.scenario.resolve.curves import (
    ServiceCurves,
    are_below,
    linear,
    service_curves,
    steepest,
)
from perhop.scenario.resolve.nesting import with_nested
from perhop.scenario.resolve.packets import Packets, sent
from perhop.scenario.resolve.paths import (
    NextHops,
    agreed_mtu,
    host_mtu,
    next_hops,
    only_path,
    path_mtu,
)
from perhop.scenario.resolve.servers import iperf3_servers
from perhop.scenario.resolve.shares import Placed, rates, walk
from perhop.scenario.resolve.sizes import (
    IP_HEADER,
    TIMESTAMPS,
    datagram_headers,
    packet_size,
    tcp_headers,
)
from perhop.scenario.resolve.steps import NetworkState, Step, sending_rate, states, steps
from perhop.scenario.resolve.tunnels import entered, tunnel_mtu

__all__ = [
    "IP_HEADER",
    "TIMESTAMPS",
    "EmptyPath",
    "NetworkState",
    "NextHops",
    "Packets",
    "Placed",
    "ServiceCurves",
    "Step",
    "agreed_mtu",
    "are_below",
    "background_path",
    "datagram_headers",
    "empty_path",
    "entered",
    "host_mtu",
    "iperf3_servers",
    "linear",
    "mean_gap",
    "next_hops",
    "only_path",
    "packet_size",
    "path_mtu",
    "rates",
    "sending_rate",
    "sent",
    "service_curves",
    "states",
    "steepest",
    "steps",
    "tcp_headers",
    "tunnel_mtu",
    "walk",
    "with_nested",
]

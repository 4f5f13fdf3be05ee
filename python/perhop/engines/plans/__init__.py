"""Plans as the core takes them: the types of `perhop-plan` and its neighbours, by the same names.

==============  ============================================
`queues`        queue disciplines
`classes`       classes, and disciplines that have them
`network`       nodes, links, and their changes
`applications`  applications
`traffic`       flows and pings
`tunnels`       tunnels
`runs`          the plans of engines
==============  ============================================

Rates are bits per second, times picoseconds, sizes bytes, shares parts per billion. What a plan
means is said where the core defines it; `tests/test_plans.py` holds these types against its schema.
"""

from perhop.engines.plans.applications import (
    ApplicationPlan,
    ExchangesPlan,
    GapsPlan,
    ObjectPlan,
    SizesPlan,
    WebPlan,
)
from perhop.engines.plans.classes import (
    Action,
    CbqClassKindPlan,
    CbqClassPlan,
    CbqPlan,
    ClassesPlan,
    ClassPlan,
    DisciplinePlan,
    HfscClassKindPlan,
    HfscClassPlan,
    MarkPlan,
    MatchPlan,
    MatchRulePlan,
    PolicePlan,
    ServiceCurve,
    Shape,
    Sharing,
)
from perhop.engines.plans.network import (
    AccessPlan,
    ChangePlan,
    ChannelPlan,
    EffectPlan,
    EndPlan,
    GilbertPlan,
    IcmpErrors,
    LinkPlan,
    MediumPlan,
    NetworkPlan,
    NodePlan,
    ReservedPlan,
    TracePlan,
    WirePlan,
)
from perhop.engines.plans.queues import (
    CakeConfig,
    CodelConfig,
    Limit,
    PieConfig,
    QueueConfig,
    RedProfile,
    RedSpec,
)
from perhop.engines.plans.runs import (
    CapturePlan,
    EmulationPlan,
    FlowKeyPlan,
    HostPlan,
    InterfacePlan,
    Iperf3Server,
    Job,
    Plan,
)
from perhop.engines.plans.traffic import (
    BurstsPlan,
    DatagramSizesPlan,
    FlowPlan,
    LengthsPlan,
    PingPlan,
    PlayoutPlan,
    QuicPlan,
    ReplayPlan,
    TransportPlan,
    UdpPlan,
    WhenFull,
)
from perhop.engines.plans.tunnels import Carrier, TunnelOverhead, TunnelPlan

__all__ = [
    "AccessPlan",
    "Action",
    "ApplicationPlan",
    "BurstsPlan",
    "CakeConfig",
    "CapturePlan",
    "Carrier",
    "CbqClassKindPlan",
    "CbqClassPlan",
    "CbqPlan",
    "ChangePlan",
    "ChannelPlan",
    "ClassPlan",
    "ClassesPlan",
    "CodelConfig",
    "DatagramSizesPlan",
    "DisciplinePlan",
    "EffectPlan",
    "EmulationPlan",
    "EndPlan",
    "ExchangesPlan",
    "FlowKeyPlan",
    "FlowPlan",
    "GapsPlan",
    "GilbertPlan",
    "HfscClassKindPlan",
    "HfscClassPlan",
    "HostPlan",
    "IcmpErrors",
    "InterfacePlan",
    "Iperf3Server",
    "Job",
    "LengthsPlan",
    "Limit",
    "LinkPlan",
    "MarkPlan",
    "MatchPlan",
    "MatchRulePlan",
    "MediumPlan",
    "NetworkPlan",
    "NodePlan",
    "ObjectPlan",
    "PieConfig",
    "PingPlan",
    "Plan",
    "PlayoutPlan",
    "PolicePlan",
    "QueueConfig",
    "QuicPlan",
    "RedProfile",
    "RedSpec",
    "ReplayPlan",
    "ReservedPlan",
    "ServiceCurve",
    "Shape",
    "Sharing",
    "SizesPlan",
    "TracePlan",
    "TransportPlan",
    "TunnelOverhead",
    "TunnelPlan",
    "UdpPlan",
    "WebPlan",
    "WhenFull",
    "WirePlan",
]

"""Configurations of Junos for tests, and what is read of them."""

from typing import Any

from perhop.routers.reading.configuration import (
    Attachment,
    Configuration,
    Source,
    Treatment,
)
from perhop.routers.reading.junos import read


def reading(text: str) -> Configuration:
    return read([Source("r.conf", text)])


def policy(text: str, interface: str | None = None, direction: str = "out") -> dict[str, Any]:
    """The classes of the first policy, or of that of an interface."""
    return attachment(text, interface, direction).policy["classes"]


def attachment(text: str, interface: str | None = None, direction: str = "out") -> Attachment:
    return next(
        each
        for each in reading(text).attachments
        if each.direction == direction and interface in (None, each.interface)
    )


def notes(text: str) -> dict[int, tuple[str, str]]:
    """The treatment and note of each line that is not modelled exactly."""
    return {
        line.place.line: (line.treatment.value, line.note)
        for line in reading(text).lines
        if line.treatment is not Treatment.MODELLED
    }


EDGE = """\
## Last changed: 2026-11-01
interfaces {
    ge-0/0/1 { unit 0 { family inet { address 192.0.2.1/24; } } }
}
class-of-service {
    classifiers {
        dscp trust {
            import default;
            forwarding-class expedited-forwarding {
                loss-priority low code-points [ ef cs5 ];
            }
        }
    }
    interfaces {
        so-0/1/0 { scheduler-map edge; }   /* to the core */
        ge-* { unit * { classifiers { dscp trust; } } }
    }
    scheduler-maps {
        edge {
            forwarding-class expedited-forwarding scheduler ef;
            forwarding-class best-effort scheduler be;
            forwarding-class network-control scheduler nc;
            forwarding-class assured-forwarding scheduler af;
        }
    }
    schedulers {
        ef { priority strict-high; }
        be { transmit-rate { remainder; } priority low; }
        nc { transmit-rate percent 5; priority low; }
        af { transmit-rate percent 20 exact; buffer-size temporal 20k; priority low; }
    }
}
"""


AS_COMMANDS = """\
set interfaces ge-0/0/1 unit 0 family inet address 192.0.2.1/24
set class-of-service classifiers dscp trust import default
set class-of-service classifiers dscp trust forwarding-class expedited-forwarding loss-priority \
low code-points [ ef cs5 ]
set class-of-service interfaces so-0/1/0 scheduler-map edge
set class-of-service interfaces ge-* unit * classifiers dscp trust
edit class-of-service scheduler-maps edge
set forwarding-class expedited-forwarding scheduler ef
set forwarding-class best-effort scheduler be
set forwarding-class network-control scheduler nc
set forwarding-class assured-forwarding scheduler af
top
set class-of-service schedulers ef priority strict-high
set class-of-service schedulers be transmit-rate remainder
set class-of-service schedulers be priority low
set class-of-service schedulers nc transmit-rate percent 5 priority low
[edit class-of-service]
user@edge# set schedulers af transmit-rate percent 20 exact
user@edge# set schedulers af buffer-size temporal 20k priority low
"""


CLASSES = {
    "assured-forwarding": {
        "match": {"dscp": ["af11", "af12", "af13"]},
        "bandwidth": "20%",
        "borrow": False,
        "queue": {"limit": "20 ms"},
    },
    "expedited-forwarding": {
        "match": {"dscp": ["cs5", "ef"]},
        "priority": "strict",
        "queue": {"limit": "100 ms"},
    },
    "network-control": {
        "match": {"dscp": ["cs6", "cs7"]},
        "bandwidth": "5%",
        "queue": {"limit": "100 ms"},
    },
    "best-effort": {"match": "any", "queue": {"limit": "100 ms"}},
}


GROUPS = """\
groups {
    cos {
        class-of-service {
            interfaces {
                <ge-*> { scheduler-map wide; unit <*> { classifiers { dscp default; } } }
            }
            schedulers { <*> { priority low; } }
        }
    }
    unused { class-of-service { schedulers { x { priority high; } } } }
    itself { apply-groups itself; }
}
apply-groups [ cos itself ];
class-of-service {
    interfaces {
        ge-0/0/0 { unit 0; } xe-0/0/0 { scheduler-map narrow; } ge-0/0/1 { scheduler-map narrow; }
    }
    scheduler-maps {
        wide { forwarding-class best-effort scheduler w; }
        narrow { forwarding-class best-effort scheduler n; }
    }
    schedulers { w { transmit-rate percent 90; } n { transmit-rate percent 10; } }
}
"""


SWITCH = """\
class-of-service {
    shared-buffer { ingress { percent 80; } }
    forwarding-classes {
        class be queue-num 0;
        class rdma queue-num 4 no-loss pfc-priority 3;
    }
    classifiers {
        ieee-802.1 tags { forwarding-class be { loss-priority low code-points 000; } }
        dscp mine { forwarding-class rdma { loss-priority low code-points [ 011010 nonsense ]; } }
    }
    interfaces {
        et-0/0/1 {
            congestion-notification-profile pfc;
            scheduler-map m;
            strange 7;
            unit 0 { classifiers { dscp mine; ieee-802.1 tags; } }
        }
    }
    scheduler-maps { m {
        forwarding-class rdma scheduler r;
        forwarding-class nobody scheduler r;
        forwarding-class be scheduler missing;
    } }
    schedulers {
        r {
            transmit-rate percent 60;
            explicit-congestion-notification;
            excess-rate percent 5;
            speed-of-light;
        }
        alone { transmit-rate percent 1; }
    }
    host-outbound-traffic forwarding-class be;
}
"""


ONE = """\
class-of-service {{
    interfaces {{ ge-0/0/0 {{ scheduler-map m; {interface} }} }}
    scheduler-maps {{ m {{ forwarding-class best-effort scheduler s;
        forwarding-class network-control scheduler t; }} }}
    schedulers {{ s {{ {s} }} t {{ {t} }} }}
    {more}
}}
"""


def one(s: str, t: str = "", *, interface: str = "", more: str = "") -> str:
    return ONE.format(s=s, t=t, interface=interface, more=more)


OSCARS = """\
firewall {
    policer oscars {
        if-exceeding { bandwidth-limit 10m; burst-size-limit 1m; }
        then discard;
    }
    family inet {
        filter reservation {
            term reserved {
                from { destination-port 5011; }
                then { policer oscars; forwarding-class expedited-forwarding; accept; }
            }
            term rest { then { forwarding-class best-effort; accept; } }
        }
    }
}
class-of-service {
    interfaces { so-0/0/0 { scheduler-map oscars; } }
    scheduler-maps { oscars {
        forwarding-class expedited-forwarding scheduler reserved;
        forwarding-class best-effort scheduler rest;
    } }
    schedulers {
        reserved { priority strict-high; }
        rest { transmit-rate remainder; }
    }
}
interfaces { so-0/0/0 { unit 0 { family inet { filter { output reservation; } } } } }
"""

"""TCP settings of a flow, and the settings of the TCP stacks of some systems."""

from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import (
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from perhop.scenario.model.base import Model
from perhop.scenario.model.names import IpVersion
from perhop.scenario.model.quantities import (
    Duration,
    Packets,
    PositiveDuration,
    Rate,
    SegmentSize,
    WindowSize,
    WriteSize,
)
from perhop.units import MILLISECOND, SECOND, parse_size

DEFAULT_MSS: Final = 1460
"""The default payload of a full segment over IPv4, in bytes: without options it fills a packet of
1500."""

_LONGER: Final = 20
"""The bytes that an IPv6 header (RFC 8200, section 3) has more than one of IPv4."""

DEFAULT_WINDOW = 4 * 2**20
"""The default window of a TCP flow in bytes: enough for 290 Mb/s at 116 ms, and close to the
maximum of a Linux receiver (6 MiB of buffer, including overhead)."""

DEFAULT_WRITE: Final = 128 * 2**10
"""The bytes that iperf3 writes to TCP at once without its option `-l` (DEFAULT_TCP_BLKSIZE)."""

AUTOTUNED_BUFFER = 6 * 2**20
"""The largest receive buffer with autotuning, in bytes: `tcp_rmem` up to Linux 6.15."""

AUTOTUNED_WINDOW = AUTOTUNED_BUFFER * 160 // 256
"""The largest receive window with autotuning, in bytes: the share of the buffer that Linux leaves
to data if 1448 B of it take 2304 B of memory (`tcp_measure_rcv_mss`)."""

PACED: Final = frozenset({"bbr", "bbr1", "prague"})
"""The congestion controls that need pacing."""

BBR: Final = frozenset({"bbr", "bbr1"})
"""BBR, version 3 and version 1."""

TIMED: Final = BBR | {"prague"}
"""The congestion controls whose losses are detected by time unless a flow says otherwise: Linux's
BBR has RACK, and RFC 9331, section 4.3, asks scalable congestion controls for it."""

FEEDBACK: Final = MappingProxyType({"dctcp": ("dctcp", "accurate"), "prague": ("accurate",)})
"""The ECN modes that each congestion control accepts if it needs the number of marked packets."""

STACKS: Final = MappingProxyType(
    {
        # Solaris Tunable Parameters Reference Manual (806-6779, Solaris 8): tcp_xmit_hiwat 16,384,
        # tcp_recv_hiwat 24,576, tcp_deferred_ack_interval 100 ms, tcp_rexmit_interval_min 400 ms,
        # tcp_tstamp_always 0; tcp_slow_start_initial is at most 4, and RFC 2414, which it refers
        # to, gives 3 segments of 1460 B. System Administration Guide 3: tcp_sack_permitted 1,
        # selective acknowledgements are accepted and not asked for.
        "solaris-8": {
            "congestion_control": "reno",
            "send_window": "16 KiB",
            "receive_window": "24 KiB",
            "sack": False,
            "initial_window": "3 packets",
            "undo": False,
            "rto_rule": "rfc6298",
            "min_rto": "400 ms",
            "delayed_ack": "100 ms",
            "limited_transmit": False,
            "small_queues": False,
        },
        # tcp(7), which dates each setting: tcp_sack, tcp_timestamps and tcp_window_scaling are on
        # since 2.2; D-SACK came with 2.4. socket(7): rmem_default and wmem_default, 65,535 B in
        # 2.2, half of which is kept for overhead. RFC 2581 for the initial window.
        "linux-2.2": {
            "congestion_control": "reno",
            "send_window": "65535 B",
            "receive_window": "32767 B",
            "mss": "1448 B",
            "timestamps": True,
            "initial_window": "2 packets",
            "limited_transmit": False,
            "undo": False,
            "small_queues": False,
        },
        # Sarolahti and Kuznetsov, Congestion Control in Linux TCP (USENIX 2002): SACK, D-SACK,
        # timestamps, limited transmit, a floor of 200 ms. tcp(7): tcp_rmem 87,380 B, of which
        # 65,535 B is the window (tcp_adv_win_scale 2); tcp_wmem up to 128 KiB. RFC 2414 for the
        # initial window. The paper has undo by timestamps and D-SACK, and a duplicate threshold
        # that follows reordering; F-RTO (tcp_frto) came later and is off.
        "linux-2.4": {
            "congestion_control": "reno",
            "send_window": "128 KiB",
            "receive_window": "65535 B",
            "mss": "1448 B",
            "timestamps": True,
            "dsack": True,
            "adaptive_reordering": True,
            "frto": False,
            "initial_window": "3 packets",
            "small_queues": False,
        },
        # Documentation/networking/ip-sysctl.rst: tcp_congestion_control cubic; tcp_sack, tcp_dsack,
        # tcp_timestamps and tcp_window_scaling 1; tcp_recovery 1 (RACK, RFC 8985),
        # tcp_early_retrans 3 (the tail loss probe). RFC 6928 for the initial window, RFC 6937 for
        # recovery. net/ipv4/tcp_cubic.c: HyStart by delay and by trains is on in CUBIC, its growth
        # and its decrease are its own. tcp_ecn 2: it agrees to ECN and does not ask for it, so that
        # there is none between two of them. tcp_moderate_rcvbuf 1: the receive window is tuned.
        # net/ipv4/tcp_input.c, tcp_incr_quickack: the first segments are acknowledged one by one.
        "linux-6": {
            "congestion_control": "cubic",
            "hystart": "linux",
            "cubic": "linux",
            "decrease_from": "window",
            "mss": "1448 B",
            "timestamps": True,
            "loss_detection": "rack",
            "dsack": True,
            "prr": True,
            "autotuning": True,
            "quick_acks": True,
        },
    }
)
"""The settings of each stack as files have them: only those that are documented."""


_OF_SACK: Final = frozenset({"loss_detection", "dsack", "prr"})
"""The settings that a stack has only with selective acknowledgements."""


_WINDOWS: Final = frozenset({"window", "send_window", "receive_window"})
"""The settings that replace a stack's autotuning."""


EcnMode = Literal["off", "classic", "dctcp", "accurate"]
"""The ECN feedback of a connection, at both ends."""


class TcpSettings(Model):
    """The settings of a TCP connection."""

    congestion_control: Literal["reno", "cubic", "ledbat++", "bbr", "bbr1", "dctcp", "prague"] = (
        "cubic"
    )
    """The congestion control: Reno (RFC 5681, 6582); CUBIC (RFC 9438); LEDBAT++, which yields to
    both (draft-irtf-iccrg-ledbat-plus-plus); `bbr`: BBR version 3 (draft-ietf-ccwg-bbr); `bbr1`:
    BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), which Linux calls `bbr`; DCTCP,
    which reduces its window in proportion to marks (RFC 8257); Prague, which does so beside the
    others (draft-briscoe-iccrg-prague-congestion-control)."""

    hystart: StrictBool | Literal["linux"] = True
    """With `true`, CUBIC leaves its first slow start when the round-trip time rises, before the
    queue is full (HyStart++, RFC 9406). With `linux`, it leaves every slow start when the
    round-trip time rises or acknowledgements arrive in long trains (Ha and Rhee, Taming the
    elephants, 2011). Other congestion controls do not use it."""

    cubic: Literal["rfc9438", "linux"] = "rfc9438"
    """The growth of CUBIC's window: that of RFC 9438, or that of Linux. In Linux, the Reno-friendly
    region always grows by 8/15 of a segment per round trip, and the window grows by at least 1/20
    before the first loss. Other congestion controls do not use it."""

    decrease_from: Literal["flight", "window"] = "flight"
    """The amount that Reno and CUBIC reduce after a loss: the data in flight (RFC 5681), or the
    window in whole segments, as in Linux. With `window`, a lost retransmission in fast recovery
    causes no further reduction, and slow start grows by all acknowledged data."""

    reno_friendly: StrictBool = True
    """With `true`, CUBIC's window grows at least as fast as Reno's would (RFC 9438, section 4.3).
    Other congestion controls do not use it."""

    window: WindowSize | None = None
    """The send and the receive window; by default 4 MiB."""

    send_window: WindowSize | None = None
    """The limit of the data in flight at the sender, instead of `window`."""

    receive_window: WindowSize | None = None
    """The window that the receiver offers, instead of `window`."""

    autotuning: StrictBool = False
    """With `true`, the receive window follows the rate of arrivals, as in Linux: from 64 KiB to
    3.75 MiB. The send buffer holds twice the congestion window, up to Linux's maximum of 4 MiB."""

    window_scaling: StrictBool = True
    """With `true`, windows may exceed 65535 B (RFC 7323)."""

    mss: SegmentSize = DEFAULT_MSS
    """The payload of a full segment; the default is 20 B less over IPv6, whose header is longer."""

    sack: StrictBool = True
    """With `true`, the receiver sends selective acknowledgements (RFC 2018). With `false`, recovery
    is that of NewReno (RFC 6582)."""

    dsack: StrictBool | None = None
    """With `true`, selective acknowledgements report duplicates (RFC 2883); by default, if losses
    are detected by time."""

    loss_detection: Literal["sack", "rack"] | None = None
    """The detection of losses: `sack` counts SACKed segments (RFC 6675); `rack` measures time and
    sends tail loss probes (RACK-TLP, RFC 8985). By default `rack` for BBR and Prague with `sack`,
    otherwise `sack`."""

    adaptive_reordering: StrictBool = False
    """With `true`, the duplicate threshold follows the observed reordering; only with
    `loss_detection: sack`."""

    undo: StrictBool = True
    """With `true`, the sender undoes its response to a spurious loss, which it detects by
    `timestamps` (Eifel, RFC 3522) or `dsack`."""

    frto: StrictBool = True
    """With `true`, the sender undoes a timeout if the next acknowledgements show that it was
    spurious (F-RTO, RFC 5682); only with `undo`."""

    prr: StrictBool = False
    """With `true`, recovery uses proportional rate reduction (RFC 9937); only with `sack`."""

    timestamps: StrictBool = False
    """With `true`, every segment has timestamps (RFC 7323): 12 bytes in addition to the payload, so
    that an `mss` of 1448 B fills an Ethernet frame."""

    initial_window: Packets = 10
    """The congestion window of a new connection (RFC 6928)."""

    rto_rule: Literal["linux", "rfc6298"] = "linux"
    """The rule for the retransmission timeout, the smoothed round-trip time plus its variation: the
    variation is at least `min_rto` (`linux`), or the whole timeout is (`rfc6298`)."""

    min_rto: PositiveDuration | None = None
    """The minimum of `rto_rule`; by default 200 ms with `linux`, and 1 s with `rfc6298` (section
    2.4)."""

    delayed_ack: Duration = 40 * MILLISECOND
    """The longest delay of an acknowledgement by the receiver; 0 s for none."""

    quick_acks: StrictBool = False
    """With `true`, the receiver acknowledges as in Linux. It acknowledges segments that arrive
    within 50 us together. It acknowledges at once: the first segments of a connection, segments
    after a duplicate or a pause, and those that open its window. Other acknowledgements have a
    delay that follows the arrivals. During a gap, after the first three, it acknowledges at most
    once per millisecond."""

    limited_transmit: StrictBool = True
    """With `true`, the first duplicate acknowledgements trigger new data (RFC 3042)."""

    ecn: EcnMode | None = None
    """The mode of ECN, with which routers may mark data instead of dropping it. `classic`: one
    congestion signal per round trip (RFC 3168). `dctcp`: each acknowledgement reports whether the
    data that it covers was marked (RFC 8257). `accurate`: acknowledgements report the number of
    marked packets (RFC 9768). By default off, unless the congestion control needs it."""

    small_queues: StrictBool = True
    """With `true`, the sender limits its data in the queue of its host's interface: to the data of
    one millisecond, but at least two super-segments of segmentation offload (TCP small queues,
    since Linux 3.6)."""

    pacing: StrictBool | None = None
    """With `true`, the sender paces segments over the round trip; by default, if the congestion
    control needs it."""

    rate: Rate | None = None
    """The mean rate in bits per second at which the application of each stream writes, as with
    iperf3's option `-b`: `write` bytes at once, as soon as the mean since the start is below the
    rate. What the path did not take is made up for later. By default it always has data."""

    write: WriteSize | None = None
    """The bytes that the application writes at once with `rate`; 128 KiB, as iperf3's."""


class Tcp(TcpSettings):
    """The settings of a TCP connection, with those of a `stack` as defaults."""

    stack: Literal["solaris-8", "linux-2.2", "linux-2.4", "linux-6"] | None = None
    """A system whose documented settings are the defaults of the flow."""

    @model_validator(mode="before")
    @classmethod
    def _from_stack(cls, value: object) -> object:
        if isinstance(value, dict) and isinstance(stack := value.get("stack"), str):
            preset = dict(STACKS.get(stack, {}))
            if value.get("sack") is False:
                # Settings that need selective acknowledgements are removed with them.
                preset = {key: v for key, v in preset.items() if key not in _OF_SACK}
            if "window" in value:
                # A window that is given is for both ends.
                preset = {key: v for key, v in preset.items() if not key.endswith("_window")}
                preset |= {k: v for k, v in STACKS.get(stack, {}).items() if k == "initial_window"}
            if not _WINDOWS.isdisjoint(value):
                preset.pop("autotuning", None)
            return preset | value
        return value

    @model_serializer(mode="wrap")
    def _without_the_stacks(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `stack`, and only those settings that differ from it."""
        written: dict[str, Any] = handler(self)
        if self.stack is None:
            return written
        given: dict[str, Any] = {"stack": self.stack}
        stack = Tcp.model_validate(given)
        given |= {k: "1 B" for k in _WINDOWS if getattr(self, k) not in (None, getattr(stack, k))}
        own_sack = self.sack == Tcp.model_validate(given).sack
        given |= {} if own_sack else {"sack": self.sack}
        preset = Tcp.model_validate(given)
        fields = TcpSettings.model_fields
        same = {name for name in fields if getattr(self, name) == getattr(preset, name)}
        same -= set() if own_sack else {"sack"}
        values = {name: getattr(self, name) for name in fields}
        every = TcpSettings.model_construct(**values).model_dump(mode="json")
        changed = {name: every[name] for name in fields if name not in same}
        return {"stack": self.stack, **changed}

    def effective_mss(self, ip: IpVersion) -> int:
        """Return the payload of a full segment in bytes.

        A value other than the default is that of both versions.
        """
        of_stack = STACKS[self.stack].get("mss") if self.stack else None
        usual = DEFAULT_MSS if of_stack is None else parse_size(str(of_stack))
        return self.mss - _LONGER if ip == 6 and self.mss == usual else self.mss

    @property
    def effective_send_window(self) -> int:
        """The limit of the data in flight at the sender, in bytes."""
        return self.send_window or self.window or DEFAULT_WINDOW

    @property
    def effective_receive_window(self) -> int:
        """The window that the receiver offers, in bytes; with autotuning, its maximum."""
        default = AUTOTUNED_WINDOW if self.autotuning else DEFAULT_WINDOW
        return self.receive_window or self.window or default

    @property
    def effective_write(self) -> int:
        """The bytes that the application writes at once."""
        return self.write or DEFAULT_WRITE

    @property
    def effective_min_rto(self) -> int:
        """The minimum of the retransmission timeout, or of its variation, in picoseconds."""
        if self.min_rto is not None:
            return self.min_rto
        return 200 * MILLISECOND if self.rto_rule == "linux" else SECOND

    @property
    def effective_ecn(self) -> EcnMode:
        """The ECN feedback that is used."""
        of_control: dict[str, EcnMode] = {"dctcp": "dctcp", "prague": "accurate"}
        return self.ecn or of_control.get(self.congestion_control, "off")

    @property
    def effective_pacing(self) -> bool:
        """True if segments are spread over the round trip."""
        return self.congestion_control in PACED if self.pacing is None else self.pacing

    @property
    def effective_dsack(self) -> bool:
        """True if selective acknowledgements report duplicates."""
        rack = self.effective_loss_detection == "rack"
        return self.sack and (rack if self.dsack is None else self.dsack)

    @property
    def effective_loss_detection(self) -> str:
        """The loss detection that is used: `sack` or `rack`."""
        timed = self.sack and self.congestion_control in TIMED
        return self.loss_detection or ("rack" if timed else "sack")

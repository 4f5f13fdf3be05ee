//! Linux's counters of queues and policers, read without a process.
//!
//! `tc -s qdisc` and `nft list counters` print the same. But a process for each node takes the
//! processor for some milliseconds, and after each fork this process's pages are copied when they
//! are written to, which would disturb measurements.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::SockProtocol;

use crate::device::Device;
use crate::netlink::{attribute, attributes, dump, find, open};
use crate::netns::Namespace;

/// Counters of a queue, by the names of tc(8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Index of its device.
    pub device: u32,
    /// Major number of its handle.
    pub handle: u32,
    /// Discipline.
    pub kind: String,
    /// Counters that every queue has, followed by those of the discipline.
    pub counts: Vec<(&'static str, u64)>,
}

/// Number of packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Counters of a device, of those that ip(8) prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Index of the device.
    pub device: u32,
    /// Received.
    pub received: Counted,
    /// Sent.
    pub sent: Counted,
    /// Packets that were dropped before they were sent.
    pub unsent: u64,
    /// Received packets with a wrong header: of a tunnel, with an ECN field that RFC 6040 refuses.
    pub frame_errors: u64,
    /// Packets without a way to send them: of a tunnel, without a route to the other end.
    pub carrier_errors: u64,
}

/// Reader of a namespace's counters, with sockets that stay open.
#[derive(Debug)]
pub struct LinuxCounts {
    namespace: Namespace,
    routes: OwnedFd,
    /// `None` if the kernel has no nftables.
    rules: Option<OwnedFd>,
}

// Numbers that libc lacks, from linux/gen_stats.h, linux/if_link.h, linux/pkt_cls.h,
// linux/rtnetlink.h, linux/tc_act/tc_gact.h and linux/netfilter/nf_tables.h.
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
const TCA_STATS_PKT64: u16 = 8;
const TCA_ACT_TAB: u16 = 1;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_ACT_STATS: u16 = 4;
const TCA_POLICE_TBF: u16 = 1;
const TCA_GACT_PARMS: u16 = 2;
const IFLA_STATS64: u16 = 23;
const NFT_OBJECT_COUNTER: u32 = 1;
const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_TYPE: u16 = 3;
const NFTA_OBJ_DATA: u16 = 4;
const NFTA_COUNTER_BYTES: u16 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;

/// Length of a `struct tcmsg`.
const TCMSG: usize = 20;
/// Length of a `struct ifinfomsg`.
const IFINFOMSG: usize = 16;
/// Length of a `struct tcamsg`, and of a `struct nfgenmsg`.
const SHORT: usize = 4;

impl LinuxCounts {
    /// Opens the sockets in a namespace.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn new(namespace: &Namespace) -> io::Result<Self> {
        namespace.within(|| {
            let rules = open(SockProtocol::NetlinkNetFilter).ok();
            Ok(Self {
                namespace: namespace.clone(),
                routes: open(SockProtocol::NetlinkRoute)?,
                rules,
            })
        })?
    }

    /// Returns the index of a device.
    ///
    /// # Errors
    /// Those of the kernel, for example if the device does not exist.
    pub fn device(&self, name: &str) -> io::Result<u32> {
        self.namespace.within(|| Device::named(name)?.index())?
    }

    /// Returns the counters of every queue that was added to a device.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn queues(&self) -> io::Result<Vec<QueueCounts>> {
        dump(&self.routes, (libc::RTM_GETQDISC, &[0; TCMSG]), |body, all| all.extend(queue(body)))
    }

    /// Returns the counters of every device.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn devices(&self) -> io::Result<Vec<DeviceCounts>> {
        dump(&self.routes, (libc::RTM_GETLINK, &[0; IFINFOMSG]), |body, all| {
            all.extend(of_device(body));
        })
    }

    /// Returns all named counters of nftables.
    ///
    /// # Errors
    /// Those of the kernel; also if it has no nftables.
    pub fn rules(&self) -> io::Result<Vec<(String, Counted)>> {
        let Some(socket) = &self.rules else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut body = vec![0; SHORT];
        attribute(&mut body, NFTA_OBJ_TYPE, &NFT_OBJECT_COUNTER.to_be_bytes());
        let kind = ((libc::NFNL_SUBSYS_NFTABLES as u16) << 8) | libc::NFT_MSG_GETOBJ as u16;
        dump(socket, (kind, &body), |body, all| all.extend(rule(body)))
    }

    /// Returns the counters of every action of a kind of tc's, `police` or `gact`, by its index.
    ///
    /// # Errors
    /// Those of the kernel; also if it lacks the action.
    pub fn actions(&self, kind: &str) -> io::Result<Vec<(u32, Counted)>> {
        let (mut named, mut first, mut body) = (Vec::new(), Vec::new(), vec![0; SHORT]);
        attribute(&mut named, TCA_ACT_KIND, &[kind.as_bytes(), &[0]].concat());
        attribute(&mut first, 1, &named);
        attribute(&mut body, TCA_ACT_TAB, &first);
        dump(&self.routes, (libc::RTM_GETACTION, &body), actions)
    }
}

/// Returns the 64-bit numbers of a kernel structure, up to its end.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("4 bytes")).into())
}

/// Reads a `struct gnet_stats_basic`, and the attribute with the number of packets in 64 bits.
fn counted(stats: &[u8]) -> Option<Counted> {
    let basic = find(stats, TCA_STATS_BASIC)?;
    let bytes = u64::from_ne_bytes(*basic.first_chunk()?);
    let short = || words(basic).nth(2);
    let long = find(stats, TCA_STATS_PKT64).and_then(|packets| packets.first_chunk());
    let packets = long.map(|packets| u64::from_ne_bytes(*packets)).or_else(short)?;
    Some(Counted { packets, bytes })
}

/// Reads the description of a device, with its `struct rtnl_link_stats64`.
fn of_device(body: &[u8]) -> Option<DeviceCounts> {
    let device = words(body.get(..IFINFOMSG)?).nth(1)? as u32;
    let (numbers, _) = find(&body[IFINFOMSG..], IFLA_STATS64)?.as_chunks();
    let number = |place: usize| numbers.get(place).copied().map(u64::from_ne_bytes);
    Some(DeviceCounts {
        device,
        received: Counted { packets: number(0)?, bytes: number(2)? },
        sent: Counted { packets: number(1)?, bytes: number(3)? },
        unsent: number(7)?,
        frame_errors: number(13)?,
        carrier_errors: number(17)?,
    })
}

/// Reads the description of a queue; `None` if it has no counters.
fn queue(body: &[u8]) -> Option<QueueCounts> {
    let mut header = words(body.get(..TCMSG)?).skip(1);
    let (device, handle) = (header.next()? as u32, header.next()? as u32 >> 16);
    let attributes = &body[TCMSG..];
    let kind = text(find(attributes, libc::TCA_KIND)?)?;
    let stats = find(attributes, libc::TCA_STATS2)?;
    let Counted { packets, bytes } = counted(stats)?;
    let mut counts = vec![("packets", packets), ("bytes", bytes)];
    // struct gnet_stats_queue.
    counts
        .extend(["qlen", "backlog", "drops"].into_iter().zip(words(find(stats, TCA_STATS_QUEUE)?)));
    if let Some(own) = find(stats, TCA_STATS_APP) {
        counts.extend(of_discipline(&kind, own));
    }
    Some(QueueCounts { device, handle, kind, counts })
}

/// Returns the counters of a discipline alone, from its structure in linux/pkt_sched.h.
fn of_discipline(kind: &str, bytes: &[u8]) -> Vec<(&'static str, u64)> {
    let places: &[(&str, usize)] = match kind {
        // struct tc_red_xstats
        "red" => &[("early", 0), ("marked", 3)],
        // struct tc_pie_xstats, the first number of which takes two words.
        "pie" => &[("overlimit", 7), ("ecn_mark", 9)],
        // struct tc_codel_xstats
        "codel" => &[("drop_overlimit", 5), ("ecn_mark", 6)],
        // struct tc_fq_codel_xstats, the first word of which tells the queue's from a class's.
        "fq_codel" => &[("drop_overlimit", 2), ("ecn_mark", 3)],
        // struct tc_fq_pie_xstats
        "fq_pie" => &[("overlimit", 2), ("ecn_mark", 4)],
        _ => &[],
    };
    let found = |&(name, place): &(&'static str, usize)| Some((name, words(bytes).nth(place)?));
    places.iter().filter_map(found).collect()
}

/// Reads the description of a named counter.
fn rule(body: &[u8]) -> Option<(String, Counted)> {
    let attributes = body.get(SHORT..)?;
    let data = find(attributes, NFTA_OBJ_DATA)?;
    let number = |kind| Some(u64::from_be_bytes(*find(data, kind)?.first_chunk()?));
    let counted =
        Counted { packets: number(NFTA_COUNTER_PACKETS)?, bytes: number(NFTA_COUNTER_BYTES)? };
    Some((text(find(attributes, NFTA_OBJ_NAME)?)?, counted))
}

/// Adds the actions of a message.
fn actions(body: &[u8], found: &mut Vec<(u32, Counted)>) {
    let all = body.get(SHORT..).and_then(|body| find(body, TCA_ACT_TAB)).unwrap_or_default();
    let of_one = |action: &[u8]| {
        let options = find(action, TCA_ACT_OPTIONS)?;
        let place = if text(find(action, TCA_ACT_KIND)?)? == "police" {
            TCA_POLICE_TBF
        } else {
            TCA_GACT_PARMS
        };
        // Both structures begin with the action's index.
        let number = words(find(options, place)?).next()? as u32;
        Some((number, counted(find(action, TCA_ACT_STATS)?)?))
    };
    found.extend(attributes(all).filter_map(|(_, action)| of_one(action)));
}

/// Returns a name, without the zero at its end.
fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(std::str::from_utf8(&bytes[..end]).ok()?.to_owned())
}

#[cfg(test)]
mod tests;

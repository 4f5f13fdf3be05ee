//! A host's own queue, inside the host, to which its sockets are charged.
//!
//! A TUN device takes all packets, and packets in it are no longer charged to the sockets that have
//! sent them (`tun_net_xmit` orphans them), so that nothing would block a sender on a slow link.
//! With a token bucket (tc-tbf(8)) before the device, at the rate of the host's link, packets wait
//! while they are charged: blocking sockets block, and TCP keeps its queue small.
//!
//! The bucket is used if the link's queue is a plain FIFO, whose limit it then has. With a policy
//! or active queue management at the host's end, packets must wait there for it to have an effect.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::SockProtocol;
use perhop_core::{NodeId, Overhead, Rate};
use perhop_net::Network;
use perhop_queue::Limit;

use crate::device::Device;
use crate::netlink::{ask, attribute, open};
use crate::netns::Namespace;
use crate::store::Buffer;
use crate::tun::NAME;

/// Rate from which on the network and not the bucket limits hosts, in bits per second.
const FASTEST: u64 = 4_000_000_000;
/// Inverse of the time, in seconds, whose transmissions a bucket of links without overhead holds:
/// several segments that a host hands over as one then pass as one on fast links.
const BURSTS_A_SECOND: u64 = 1_000;

const HANDLE: u32 = 1 << 16;

// linux/rtnetlink.h, linux/pkt_sched.h.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_H_ROOT: u32 = u32::MAX;
const LINKLAYER_ETHERNET: u8 = 1;
const LINKLAYER_ATM: u8 = 2;
/// Overhead of AAL5 with LLC/SNAP, in bytes: 8 of header and 8 of trailer.
const ATM_OVERHEAD: u32 = 16;

/// Settings of a host's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    rate: Rate,
    overhead: Overhead,
    limit: Limit,
}

/// A host's queue, and the means to change it.
#[derive(Debug)]
pub(crate) struct HostQueue {
    host: NodeId,
    /// Length of the longest packet, in bytes.
    mtu: u32,
    device: u32,
    socket: OwnedFd,
    /// Current settings; `None` for the kernel's default.
    now: Option<Setting>,
    /// True if the kernel has refused it.
    pub refused: bool,
}

impl HostQueue {
    /// Returns the queue of a host, with the kernel's default settings.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn new(host: NodeId, namespace: &Namespace, mtu: u32) -> io::Result<Self> {
        let (device, socket) = namespace.within(|| {
            io::Result::Ok((Device::named(NAME)?.index()?, open(SockProtocol::NetlinkRoute)?))
        })??;
        Ok(Self { host, mtu, device, socket, now: None, refused: false })
    }

    /// Returns `true` if the queue blocks the host's senders.
    pub fn stands(&self) -> bool {
        self.now.is_some()
    }

    /// Updates the queue from the class at the host's end of its link.
    pub fn follow(&mut self, network: &Network<Buffer>) {
        let wanted = wanted(self.host, network);
        if wanted == self.now || self.refused {
            return;
        }
        let done = match wanted {
            Some(setting) => self.set(setting),
            None => self.remove(),
        };
        match done {
            Ok(()) => self.now = wanted,
            Err(_) => {
                self.refused = true;
                if self.now.take().is_some() {
                    // A bucket with a wrong rate is worse than none.
                    let _ = self.remove();
                }
            }
        }
    }

    fn set(&self, Setting { rate, overhead, limit }: Setting) -> io::Result<()> {
        let (packets, bytes) = limit.parts();
        let in_packets = packets < u64::MAX;
        let most = if in_packets { packets } else { bytes.get() };
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        let (layer, added) = match overhead {
            Overhead::Fixed(bytes) => (LINKLAYER_ETHERNET, bytes),
            Overhead::Atm => (LINKLAYER_ATM, ATM_OVERHEAD),
        };
        // The overhead applies to each packet: several segments that are handed over as one are
        // split before the bucket.
        let one = (overhead.on_wire(perhop_core::Bytes::new(self.mtu.into())).get() as u32) + 64;
        let per_second = rate.bits_per_second() / 8;
        let burst = match overhead {
            Overhead::Fixed(0) => one.max((per_second / BURSTS_A_SECOND) as u32),
            _ => one,
        };
        // struct tc_tbf_qopt: two of struct tc_ratespec, then limit, buffer and mtu.
        let mut parms = vec![0, layer];
        parms.extend_from_slice(&(added as u16).to_ne_bytes());
        parms.extend_from_slice(&[0; 4]); // cell_align, mpu
        parms.extend_from_slice(&u32::try_from(per_second).unwrap_or(u32::MAX).to_ne_bytes());
        parms.extend_from_slice(&[0; 12]);
        parms.extend_from_slice(&most.to_ne_bytes());
        parms.extend_from_slice(&[0; 8]);
        let mut options = Vec::new();
        attribute(&mut options, TCA_TBF_PARMS, &parms);
        attribute(&mut options, TCA_TBF_BURST, &burst.to_ne_bytes());
        attribute(&mut options, TCA_TBF_RATE64, &per_second.to_ne_bytes());
        let flags = libc::NLM_F_CREATE;
        self.ask(libc::RTM_NEWQDISC, flags, (HANDLE, TC_H_ROOT), Some(("tbf", &options)))?;
        if in_packets && self.now.is_none_or(|now| now.limit.parts().0 == u64::MAX) {
            let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
            let place = (HANDLE << 1, HANDLE | 1);
            self.ask(libc::RTM_NEWQDISC, flags, place, Some(("pfifo", &most.to_ne_bytes())))?;
        }
        Ok(())
    }

    fn remove(&self) -> io::Result<()> {
        self.ask(libc::RTM_DELQDISC, 0, (HANDLE, TC_H_ROOT), None)
    }

    fn ask(
        &self,
        kind: u16,
        flags: libc::c_int,
        (handle, parent): (u32, u32),
        discipline: Option<(&str, &[u8])>,
    ) -> io::Result<()> {
        // struct tcmsg: family, padding, device, handle, parent, info.
        let mut body = vec![0; 4];
        body.extend_from_slice(&self.device.to_ne_bytes());
        body.extend_from_slice(&handle.to_ne_bytes());
        body.extend_from_slice(&parent.to_ne_bytes());
        body.extend_from_slice(&[0; 4]);
        if let Some((name, options)) = discipline {
            attribute(&mut body, TCA_KIND, &[name.as_bytes(), &[0]].concat());
            attribute(&mut body, TCA_OPTIONS, options);
        }
        ask(&self.socket, kind, flags, &body)
    }
}

/// Returns the settings that the queue before a host's device should have, if any.
fn wanted(host: NodeId, network: &Network<Buffer>) -> Option<Setting> {
    let port = network.only_port(host)?;
    if network.trace(port).is_some() || network.is_end_of_tunnel(host) {
        return None; // a bucket has one rate, and knows no outer packets
    }
    let wire = network.wire(port);
    let limit = network.queue(port).plain_limit()?;
    let setting = Setting { rate: wire.rate, overhead: wire.overhead, limit };
    (wire.rate.bits_per_second() < FASTEST).then_some(setting)
}

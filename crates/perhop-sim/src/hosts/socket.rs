//! What a socket has in its host's own queue, and when that holds up its sender.
//!
//! As in Linux, a packet is charged to the socket that has sent it until its transmission begins.
//! The queue before a host's link is the link's: `txqueuelen` packets of drop-tail, if the scenario
//! says nothing else.

use perhop_core::Duration;

/// What a UDP socket may hold (`net.core.wmem_default` of Linux), in bytes of memory.
pub(crate) const SEND_BUFFER: u64 = 212_992;

/// A socket's packets in its host's own queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Socket {
    /// Bytes that wait: of IP for TCP, of memory for UDP.
    pub queued: u64,
    /// Whether its sender waits for room.
    pub blocked: bool,
}

/// What a sender of datagrams does when its host cannot take one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It waits until half of its socket's buffer is free, as a process does that sleeps in
    /// sendto(2): Linux's `sock_writeable`.
    Wait,
    /// It does not notice; the datagram is lost.
    Drop,
    /// It has no buffer of its own, and tries again after this time if its interface's queue has no
    /// room: what programs on BSD do about ENOBUFS.
    Retry(Duration),
}

/// The memory that a datagram of `size` IP bytes takes: Linux's `SKB_TRUESIZE`, with its structures
/// of 64-bit systems. The payload lies with `skb_shared_info` in a block of `kmalloc`, whose sizes
/// are powers of two here.
pub(crate) fn truesize(size: u32) -> u64 {
    const SK_BUFF: u64 = 256;
    const SHARED_INFO: u64 = 320;
    /// Room for the header of Ethernet, aligned, and what ip(7) adds.
    const HEADROOM: u64 = 16 + 15;
    SK_BUFF + (u64::from(size) + HEADROOM + SHARED_INFO).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_datagram_takes_what_linux_says() {
        // /proc/net/udp's tx_queue after one of 1472 bytes on Ethernet.
        assert_eq!(truesize(1500), 2304);
        assert_eq!(SEND_BUFFER.div_ceil(truesize(1500)), 93);
    }
}

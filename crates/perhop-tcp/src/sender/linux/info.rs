//! What Linux tells of a connection.

use super::Sender;

/// Linux's TCP_INFO (include/uapi/linux/tcp.h), of a sender that behaves as Linux; counts are of
/// segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// 0 open, 1 disorder, 2 reduction after marks, 3 recovery, 4 loss (tcpi_ca_state).
    pub state: u8,
    /// Congestion window.
    pub cwnd: u32,
    /// Slow start threshold; 2^31 - 1 if there is none yet.
    pub ssthresh: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Those of them that the peer has beyond a gap.
    pub sacked: u32,
    /// Those of them that are taken for lost.
    pub lost: u32,
    /// Retransmissions under way.
    pub retrans: u32,
    /// Retransmissions since the connection began.
    pub total_retrans: u32,
    /// Segments by which reordering is known to displace others.
    pub reordering: u32,
}

impl Sender {
    /// Returns what Linux would tell of the connection; `None` unless the sender behaves as Linux.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        let (linux, scoreboard) = (self.linux.as_deref()?, &self.scoreboard);
        let counts = scoreboard.counts();
        Some(TcpInfo {
            state: linux.state as u8,
            cwnd: linux.window,
            ssthresh: linux.threshold,
            unacked: scoreboard.segments() as u32,
            sacked: match self.uses_sack() {
                true => scoreboard.sacked_segments() as u32,
                false => linux.duplicates,
            },
            lost: counts.lost,
            retrans: counts.resent,
            total_retrans: self.retransmits as u32,
            reordering: linux.reordering,
        })
    }
}

//! State of a TCP connection in the kernel (tcp(7), `TCP_INFO`; `linux/tcp.h`).

use std::io;

use crate::Socket;

/// Size of `struct tcp_info` in bytes, with the fields up to Linux 5.4.
const SIZE: usize = 232;

/// Fields of `struct tcp_info` that perhop uses. Fields that an older kernel does not write are
/// zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// True if both ends use ECN (RFC 3168).
    pub ecn: bool,
    /// Maximum segment size of the sender in bytes.
    pub snd_mss: u32,
    /// Segment size of the received data in bytes, as the kernel estimates it.
    pub rcv_mss: u32,
    /// The smoothed round-trip time in microseconds.
    pub rtt: u32,
    /// The congestion window in segments.
    pub snd_cwnd: u32,
    /// Retransmitted segments.
    pub total_retrans: u32,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Segments with data received.
    pub data_segs_in: u32,
    /// Segments with data sent.
    pub data_segs_out: u32,
    /// Bytes that the peer has acknowledged, the SYN included.
    pub bytes_acked: u64,
    /// The delivery rate in bytes per second.
    pub delivery_rate: u64,
    /// Segments that arrived with congestion experienced, as reported by the receiver.
    pub delivered_ce: u32,
    /// Segments that arrived twice, as reported by the receiver.
    pub dsack_dups: u32,
    /// Number of reordering events.
    pub reord_seen: u32,
    /// Window that the peer offers, in bytes.
    pub snd_wnd: u32,
}

impl TcpInfo {
    /// Reads the state of a TCP socket.
    pub fn of(socket: &Socket) -> io::Result<Self> {
        let mut bytes = [0; SIZE];
        socket.get_bytes((libc::IPPROTO_TCP, libc::TCP_INFO), &mut bytes)?;
        Ok(Self {
            // tcpi_options, TCPI_OPT_ECN
            ecn: bytes[5] & 8 != 0,
            snd_mss: word::<16>(&bytes),
            rcv_mss: word::<20>(&bytes),
            rtt: word::<68>(&bytes),
            snd_cwnd: word::<80>(&bytes),
            total_retrans: word::<100>(&bytes),
            segs_out: word::<136>(&bytes),
            segs_in: word::<140>(&bytes),
            data_segs_in: word::<152>(&bytes),
            data_segs_out: word::<156>(&bytes),
            bytes_acked: long::<120>(&bytes),
            delivery_rate: long::<160>(&bytes),
            delivered_ce: word::<196>(&bytes),
            dsack_dups: word::<216>(&bytes),
            reord_seen: word::<220>(&bytes),
            snd_wnd: word::<228>(&bytes),
        })
    }
}

fn word<const AT: usize>(bytes: &[u8; SIZE]) -> u32 {
    u32::from_ne_bytes([bytes[AT], bytes[AT + 1], bytes[AT + 2], bytes[AT + 3]])
}

fn long<const AT: usize>(bytes: &[u8; SIZE]) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[AT..AT + 8]);
    u64::from_ne_bytes(long)
}

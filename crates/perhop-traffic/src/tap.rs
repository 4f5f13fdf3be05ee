//! Observation of TCP packets that arrive with another DSCP or ECN field (RFC 3168) than most
//! packets of their flow are sent with.
//!
//! A TCP socket does not report the DSCP and ECN field of received packets. A packet socket
//! (packet(7)) would copy every packet; a filter in the kernel (classic BPF, linux/filter.h) limits
//! that to these packets, which are usually few. The connections themselves count all packets.

use std::io;
use std::net::{IpAddr, SocketAddr};

use perhop_core::TrafficClass;
use perhop_wire::{IPV6_HEADER, Ipv4Header, Ipv6Header, QuotedPacket, TcpHeader, number};
use socket2::SockFilter;

use perhop_socket::Socket;

/// Packets to a port, or from one, most of which should arrive with this DSCP and ECN field.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The port.
    pub port: u16,
    /// True for packets to the port, false for those from it.
    pub to_port: bool,
    /// Their DSCP and ECN field.
    pub class: TrafficClass,
}

/// Bytes of a packet that are copied: the headers of IP and TCP, with options.
pub const SNAP: usize = 128;

const TCP: u32 = number::TCP as u32;

// linux/bpf_common.h, linux/filter.h.
const LD_W_ABS: u16 = 0x20;
const LD_H_ABS: u16 = 0x28;
const LD_B_ABS: u16 = 0x30;
const LD_H_IND: u16 = 0x48;
const LD_MEM: u16 = 0x60;
const LDX_B_MSH: u16 = 0xb1;
const ST: u16 = 0x02;
const LDX_IMM: u16 = 0x01;
const AND: u16 = 0x54;
const RSH: u16 = 0x74;
const JEQ: u16 = 0x15;
const JA: u16 = 0x05;
const RET: u16 = 0x06;
/// Offset at which a filter reads the direction of a packet.
const SKF_AD_PKTTYPE: u32 = -0x1000_i32 as u32 + 4;
const PACKET_OUTGOING: u32 = 4;
const BPF_MAXINSNS: usize = 4096;

// Words of the filter's memory.
const MARK: u32 = 0;
const FROM: u32 = 1;
const TO: u32 = 2;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    k: u32,
}

const fn op(code: u16, k: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, k }
}

const fn jump_if(k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code: JEQ, jump_true, jump_false, k }
}

/// Returns a filter that passes packets of these flows with another DSCP or ECN field.
fn filter(expected: &[Expected]) -> Vec<Instruction> {
    let keep = op(RET, SNAP as u32);
    let drop = op(RET, 0);
    // The code of both families leaves the mark in memory, and the offset of the ports in the index
    // register.
    let v4 = [
        jump_if(4, 1, 0),
        drop,
        op(LD_B_ABS, 9),
        jump_if(TCP, 1, 0),
        drop,
        op(LD_B_ABS, 1),
        op(ST, MARK),
        op(LDX_B_MSH, 0),
    ];
    let v6 = [
        op(LD_B_ABS, 6),
        jump_if(TCP, 1, 0),
        drop,
        op(LD_H_ABS, 0),
        op(RSH, 4),
        op(AND, 255),
        op(ST, MARK),
        op(LDX_IMM, 40),
        op(JA, v4.len() as u32),
    ];
    let mut program = vec![
        op(LD_W_ABS, SKF_AD_PKTTYPE),
        jump_if(PACKET_OUTGOING, 0, 1),
        drop,
        op(LD_B_ABS, 0),
        op(RSH, 4),
        jump_if(6, 0, v6.len() as u8),
    ];
    program.extend(v6);
    program.extend(v4);
    program.extend([op(LD_H_IND, 0), op(ST, FROM), op(LD_H_IND, 2), op(ST, TO)]);
    for each in expected {
        program.extend([
            op(LD_MEM, if each.to_port { TO } else { FROM }),
            jump_if(each.port.into(), 0, 4),
            op(LD_MEM, MARK),
            jump_if(each.class.octet().into(), 0, 1),
            drop,
            keep,
        ]);
    }
    program.push(drop);
    program
}

/// Opens a socket that observes packets that arrive in the calling thread's namespace. If there are
/// too many flows for one filter, the last ones are not observed.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_RAW`; others if the kernel refuses the filter.
pub fn open(expected: &[Expected]) -> io::Result<Socket> {
    let mut expected = expected.to_vec();
    let order = |each: &Expected| (each.port, each.to_port, each.class.octet());
    expected.sort_by_key(order);
    expected.dedup_by_key(|each| order(each));
    expected.truncate((BPF_MAXINSNS - 64) / 6);
    let instruction = |Instruction { code, jump_true, jump_false, k }| {
        SockFilter::new(code, jump_true, jump_false, k)
    };
    let program: Vec<SockFilter> = filter(&expected).into_iter().map(instruction).collect();
    // Without a protocol it receives nothing until the filter is attached.
    let socket = Socket::new(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
    socket.attach_filter(&program)?;
    socket.set((libc::SOL_SOCKET, libc::SO_RCVBUF), 4 << 20)?;
    socket.bind_packets()?;
    Ok(socket)
}

/// Headers of a TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address and port.
    pub from: SocketAddr,
    /// Destination address and port.
    pub to: SocketAddr,
    /// DSCP and ECN field.
    pub class: TrafficClass,
    /// Bytes after the headers.
    pub payload: usize,
}

/// Parses the headers of a packet that begins with these bytes, which are not trusted. Segments
/// that the kernel has merged have the header of one long packet.
pub fn parse(bytes: &[u8]) -> Option<Packet> {
    let packet = QuotedPacket::parse(bytes).filter(|packet| packet.number == number::TCP)?;
    let length = match packet.source {
        IpAddr::V4(_) => Ipv4Header::of(bytes)?.total_length().into(),
        IpAddr::V6(_) => IPV6_HEADER + usize::from(Ipv6Header::of(bytes)?.payload_length()),
    };
    let header = TcpHeader::of(packet.transport)?;
    let headers = bytes.len() - packet.transport.len() + header.header_length();
    Some(Packet {
        from: SocketAddr::new(packet.source, header.source_port()),
        to: SocketAddr::new(packet.destination, header.destination_port()),
        class: packet.traffic_class,
        payload: length.saturating_sub(headers),
    })
}

#[cfg(test)]
mod tests;

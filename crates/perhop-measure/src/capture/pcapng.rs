//! The PCAP Next Generation file format (draft-ietf-opsawg-pcapng): one section, in little-endian
//! order, of one or more interfaces.

use perhop_core::Time;
use perhop_net::Passage;

use super::InterfacePlan;

// Section 4: types of blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Length of a section that is unknown when the section begins.
const UNKNOWN_LENGTH: u64 = u64::MAX;

/// Packets begin with an IP header (LINKTYPE_RAW): the model knows the layer-2 overhead only as a
/// number of bytes, without addresses, so that frames would have to be invented.
const LINKTYPE_RAW: u16 = 101;

// Sections 3.5 and 4.1 to 4.3: options.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Timestamps have units of 10⁻⁹ s, the resolution that analysers show. The model's picoseconds are
/// rounded down.
const NANOSECONDS: u8 = 9;
const PICOS_PER_NANO: u64 = 1_000;

const INBOUND: u32 = 0b01;
const OUTBOUND: u32 = 0b10;

/// Writes the block at the beginning of a file.
pub(super) fn section(out: &mut Vec<u8>, application: &str, comment: &str) {
    block(out, SECTION_HEADER, |out| {
        out.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend([1_u16, 0].map(u16::to_le_bytes).as_flattened()); // version 1.0
        out.extend(UNKNOWN_LENGTH.to_le_bytes());
        option(out, SHB_USERAPPL, application.as_bytes());
        option(out, COMMENT, comment.as_bytes());
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Writes the block that describes an interface. Interfaces are numbered in order.
pub(super) fn interface(out: &mut Vec<u8>, interface: &InterfacePlan, snaplen: u32) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend([LINKTYPE_RAW, 0].map(u16::to_le_bytes).as_flattened());
        out.extend(snaplen.to_le_bytes());
        option(out, IF_NAME, interface.name.as_bytes());
        option(out, IF_DESCRIPTION, interface.description.as_bytes());
        option(out, IF_SPEED, &interface.speed.to_le_bytes());
        option(out, IF_TSRESOL, &[NANOSECONDS]);
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// A packet that passed an interface.
pub(super) struct Packet<'a> {
    pub interface: u32,
    pub at: Time,
    pub passage: Passage,
    /// Bytes of the packet; those missing at the end are zero.
    pub bytes: &'a [u8],
    /// Length of the packet.
    pub length: u32,
    /// Number of bytes to keep; zero for all.
    pub snaplen: u32,
}

impl Packet<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        let kept = if self.snaplen == 0 { self.length } else { self.length.min(self.snaplen) };
        let time = self.at.as_picos() / PICOS_PER_NANO;
        let flags = match self.passage {
            Passage::Sent => OUTBOUND,
            Passage::Received => INBOUND,
        };
        block(out, ENHANCED_PACKET, |out| {
            let [high, low] = [(time >> 32) as u32, time as u32];
            let fields = [self.interface, high, low, kept, self.length];
            out.extend_from_slice(fields.map(u32::to_le_bytes).as_flattened());
            let kept = kept as usize;
            let made = self.bytes.len().min(kept);
            out.extend_from_slice(&self.bytes[..made]);
            out.resize(out.len() + (kept - made) + padding(kept), 0);
            option(out, EPB_FLAGS, &flags.to_le_bytes());
            option(out, END_OF_OPTIONS, &[]);
        });
    }
}

/// Writes a block: its type, its length, its body, its length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out.extend_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
}

/// Writes an option: its code, its length, its value, padded to words. Text longer than an option
/// is truncated.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(u16::MAX.into())];
    let head = [code, value.len() as u16];
    out.extend_from_slice(head.map(u16::to_le_bytes).as_flattened());
    out.extend_from_slice(value);
    out.resize(out.len() + padding(value.len()), 0);
}

/// Returns the number of bytes that pad a field of `length` bytes to words.
const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

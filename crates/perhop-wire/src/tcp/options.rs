//! Options of TCP: of RFC 9293, section 3.2, RFC 2018 and RFC 7323.

use std::fmt;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Blocks of a SACK option, each from its first sequence number up to, but not including, its last:
/// at most four.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); Self::MOST],
    count: usize,
}

impl SackBlocks {
    /// Greatest number of blocks that fit into the options (RFC 2018, section 3).
    pub const MOST: usize = 4;

    /// Returns the blocks.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..self.count]
    }
}

impl FromIterator<(u32, u32)> for SackBlocks {
    /// Collects the first four blocks; further ones do not fit into the options and are ignored.
    fn from_iter<I: IntoIterator<Item = (u32, u32)>>(iter: I) -> Self {
        let (mut blocks, mut count) = ([(0, 0); Self::MOST], 0);
        for (place, block) in blocks.iter_mut().zip(iter) {
            *place = block;
            count += 1;
        }
        Self { blocks, count }
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// No operation, which fills up words.
    Nop,
    /// Maximum segment size, in bytes.
    Mss(u16),
    /// Number of bits by which windows are shifted (RFC 7323, section 2).
    WindowScale(u8),
    /// Selective acknowledgements may be sent.
    SackPermitted,
    /// Selective acknowledgements.
    Sack(SackBlocks),
    /// Timestamps.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The last timestamp received from the other side.
        echo: u32,
    },
    /// Another option, or one of these with an invalid length.
    Other {
        /// Its kind.
        kind: u8,
        /// Data behind kind and length.
        data: &'a [u8],
    },
}

impl TcpOption<'_> {
    /// Appends the option to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Nop => out.push(NOP),
            Self::Mss(bytes) => {
                out.extend_from_slice(&[MSS, 4]);
                out.extend_from_slice(&bytes.to_be_bytes());
            }
            Self::WindowScale(shift) => out.extend_from_slice(&[WINDOW_SCALE, 3, shift]),
            Self::SackPermitted => out.extend_from_slice(&[SACK_PERMITTED, 2]),
            Self::Sack(ref blocks) => {
                out.extend_from_slice(&[SACK, 2 + 8 * blocks.count as u8]);
                for (left, right) in blocks.as_slice() {
                    out.extend_from_slice(&left.to_be_bytes());
                    out.extend_from_slice(&right.to_be_bytes());
                }
            }
            Self::Timestamps { value, echo } => {
                out.extend_from_slice(&[TIMESTAMPS, 10]);
                out.extend_from_slice(&value.to_be_bytes());
                out.extend_from_slice(&echo.to_be_bytes());
            }
            Self::Other { kind, data } => {
                out.extend_from_slice(&[kind, 2 + data.len() as u8]);
                out.extend_from_slice(data);
            }
        }
    }
}

/// Iterator over the options of a segment, up to the end-of-list option or to a truncated one.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    left: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        let (&kind, rest) = self.left.split_first()?;
        if kind == NOP {
            self.left = rest;
            return Some(TcpOption::Nop);
        }
        let whole = rest.first().map(|&length| usize::from(length)).filter(|_| kind != END);
        let data = whole.and_then(|length| self.left.get(2..length));
        self.left = whole.and_then(|length| self.left.get(length..)).unwrap_or_default();
        let data = data?;
        Some(match (kind, data) {
            (MSS, &[a, b]) => TcpOption::Mss(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => TcpOption::WindowScale(shift),
            (SACK_PERMITTED, []) => TcpOption::SackPermitted,
            (SACK, blocks) => match blocks.as_chunks::<8>() {
                (blocks, []) if blocks.len() <= SackBlocks::MOST => {
                    TcpOption::Sack(blocks.iter().map(pair).collect())
                }
                _ => TcpOption::Other { kind, data },
            },
            (TIMESTAMPS, data) if data.len() == 8 => {
                let (value, echo) = data.first_chunk().map_or((0, 0), pair);
                TcpOption::Timestamps { value, echo }
            }
            _ => TcpOption::Other { kind, data },
        })
    }
}

fn pair(&[a, b, c, d, e, f, g, h]: &[u8; 8]) -> (u32, u32) {
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

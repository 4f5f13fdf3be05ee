//! The proof that an address wants data, before any is sent to it.
//!
//! Whoever controls a sender could otherwise point it at anybody. So the sender of data invents a
//! *nonce* of 16 random bytes for each stream and address, and sends nothing but that nonce until
//! it has come back from there. Frames have 44 bytes:
//!
//! | frame | from | contents |
//! |---|---|---|
//! | hello | the receiver, where it opens the stream | the stream |
//! | challenge | the sender | the stream, a nonce for this address |
//! | proof | the receiver | the stream, the same nonce |
//! | confirmation | the sender of datagrams | the stream, the same nonce |
//!
//! All carry the token of the run, by which streams are recognised whatever address translators
//! (NAT) made of addresses and ports. In TCP they come first on every connection. Datagrams of
//! frames go between the sockets that data will go between. To an address that was not proved, a
//! sender sends at most 3 challenges of its own accord, and at most 8 more in answer to hellos.
//!
//! What echoes datagrams proves nothing, as a proof is another kind of frame; nor does a forged
//! source address, as its nonce goes to another address.

use std::fs::File;
use std::io::{self, Read};

use crate::live::Token;

mod connections;
mod datagrams;

pub(crate) use connections::Connections;
pub(crate) use datagrams::{DatagramReceivers, DatagramSenders};

/// How many bytes a frame has.
pub(crate) const FRAME: usize = 44;

const MAGIC: [u8; 5] = *b"phpr\x01";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello = 1,
    Challenge = 2,
    Proof = 3,
    Confirmation = 4,
}

/// A number that only the address knows that it was sent to.
pub(crate) type Nonce = [u8; 16];

/// What is sent before data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub kind: Kind,
    pub flow: u16,
    pub stream: u16,
    pub nonce: Nonce,
}

impl Frame {
    /// In network byte order: 5 bytes `phpr` and the version, the kind, the flow and the stream in
    /// 2 each, 2 of zero, the token and the nonce.
    pub fn write(&self, token: Token) -> [u8; FRAME] {
        let mut bytes = [0; FRAME];
        bytes[..5].copy_from_slice(&MAGIC);
        bytes[5] = self.kind as u8;
        bytes[6..8].copy_from_slice(&self.flow.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.stream.to_be_bytes());
        bytes[12..28].copy_from_slice(&token.0);
        bytes[28..].copy_from_slice(&self.nonce);
        bytes
    }

    /// The frame, unless these bytes are something else or another run's.
    pub fn read(bytes: &[u8], token: Token) -> Option<Self> {
        let bytes: &[u8; FRAME] = bytes.try_into().ok()?;
        let kind = match bytes[5] {
            1 => Kind::Hello,
            2 => Kind::Challenge,
            3 => Kind::Proof,
            4 => Kind::Confirmation,
            _ => return None,
        };
        let known = bytes[..5] == MAGIC && bytes[10..12] == [0; 2];
        if !(known && alike(&bytes[12..28], &token.0)) {
            return None;
        }
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&bytes[28..]);
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Some(Self { kind, flow: number(6), stream: number(8), nonce })
    }
}

/// Whether secrets are equal; that takes the same time whether they are or not.
fn alike(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// A nonce that nobody can guess (random(4)).
pub(crate) fn nonce() -> io::Result<Nonce> {
    let mut nonce = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token([7; 16]);

    #[test]
    fn frames_are_read_as_they_were_written() {
        for kind in [Kind::Hello, Kind::Challenge, Kind::Proof, Kind::Confirmation] {
            let frame = Frame { kind, flow: 3, stream: 500, nonce: nonce().unwrap() };
            let bytes = frame.write(TOKEN);
            assert_eq!(Frame::read(&bytes, TOKEN), Some(frame));
            assert_eq!(Frame::read(&bytes, Token([8; 16])), None);
            assert_eq!(Frame::read(&bytes[..43], TOKEN), None);
        }
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }

    #[test]
    fn fuzz_frames() {
        let frame = Frame { kind: Kind::Proof, flow: 1, stream: 2, nonce: [9; 16] };
        let seeds = [frame.write(TOKEN).to_vec()];
        perhop_fuzz::fuzz("proof frames", &seeds, |bytes| {
            let read = Frame::read(bytes, TOKEN);
            if let Some(frame) = read {
                assert_eq!(frame.write(TOKEN), bytes);
            }
            read.is_some()
        });
    }
}

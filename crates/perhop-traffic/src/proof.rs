//! Proof that an address wants data, before any is sent to it.
//!
//! Without it, a controller could direct a sender at any third party. The sender of data therefore
//! draws a *nonce* of 16 random bytes for each stream and address, and sends nothing but this nonce
//! until the address has returned it. Frames have 44 bytes:
//!
//! | frame | from | contents |
//! |---|---|---|
//! | hello | the receiver, if it opens the stream | the stream |
//! | challenge | the sender | the stream, a nonce for this address |
//! | proof | the receiver, again and again for datagrams | the stream, the same nonce |
//! | confirmation | the sender of datagrams | the stream, the same nonce |
//!
//! All frames carry the token of the run, which identifies streams even if address translators
//! (NAT) change addresses and ports. On TCP connections they precede the data. With UDP they use
//! the sockets of the data. A sender sends at most 3 unsolicited challenges to an unproved address,
//! and at most 8 more in answer to hellos. Connections, challenges and hellos to addresses that
//! have proved nothing yet have a common limit of the rate ([`Budget::may_begin`]).
//!
//! The token is masked by the nonce, which is random in hellos: a controller cannot choose the
//! bytes that arrive at a server of another protocol (as in RFC 6455, section 10.3).
//!
//! A host that echoes datagrams proves nothing, because a proof is another kind of frame. Neither
//! does a forged source address, because the nonce goes to that address. While data is sent, the
//! receiver of datagrams repeats its proof ([`consent`]).

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use crate::budget::Budget;
use crate::live::Token;
use perhop_socket::{Nanos, random_bytes};

mod connections;
mod consent;
mod datagrams;

pub(crate) use connections::Connections;
pub(crate) use consent::{Consent, Renewal, Renewals, TIMEOUT as CONSENT_TIMEOUT, proof_buffers};
pub(crate) use datagrams::{DatagramReceivers, DatagramSenders};

/// Size of a frame in bytes.
pub(crate) const FRAME: usize = 44;

const MAGIC: [u8; 5] = *b"phpr\x01";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello = 1,
    Challenge = 2,
    Proof = 3,
    Confirmation = 4,
}

/// Random number that is known only at the address that it was sent to.
pub(crate) type Nonce = [u8; 16];

/// Frame that precedes data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub kind: Kind,
    pub flow: u16,
    pub stream: u16,
    pub nonce: Nonce,
}

impl Frame {
    /// Returns the frame in network byte order: 5 bytes `phpr` and the version, the kind, the flow
    /// and the stream in 2 each, 2 of zero, the token XOR the nonce, and the nonce.
    pub fn write(&self, token: Token) -> [u8; FRAME] {
        let mut bytes = [0; FRAME];
        bytes[..5].copy_from_slice(&MAGIC);
        bytes[5] = self.kind as u8;
        bytes[6..8].copy_from_slice(&self.flow.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.stream.to_be_bytes());
        bytes[12..28].copy_from_slice(&mask(token.0, &self.nonce));
        bytes[28..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Parses a frame. Returns `None` if the bytes are no frame, or a frame of another run.
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
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&bytes[28..]);
        if !(known && secrets_equal(&bytes[12..28], &mask(token.0, &nonce))) {
            return None;
        }
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Some(Self { kind, flow: number(6), stream: number(8), nonce })
    }
}

/// Returns a token XOR a nonce.
fn mask(mut token: [u8; Token::SIZE], nonce: &Nonce) -> [u8; Token::SIZE] {
    token.iter_mut().zip(nonce).for_each(|(byte, mask)| *byte ^= mask);
    token
}

/// Addresses that have proved that they want packets of this run, and the limit of the first
/// packets to all others.
#[derive(Debug)]
pub(crate) struct Contacts<'a> {
    pub proved: &'a mut HashSet<IpAddr>,
    pub budget: &'a Budget,
    pub now: Nanos,
}

impl Contacts<'_> {
    /// Returns whether a stream may send its first packet to this address now.
    fn may_begin(&self, to: IpAddr) -> bool {
        self.proved.contains(&to) || self.budget.may_begin(self.now)
    }
}

/// Returns whether two secrets are equal, in constant time.
fn secrets_equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// Returns an unpredictable nonce.
pub(crate) fn nonce() -> io::Result<Nonce> {
    random_bytes()
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

    /// Whoever knows the token, as a controller does, would else choose 16 bytes of a frame.
    #[test]
    fn tokens_are_masked() {
        let token = Token(*b"\r\nDELETE ALL; \r\n");
        let frame = |nonce| Frame { kind: Kind::Challenge, flow: 0, stream: 0, nonce };
        let bytes = frame(nonce().unwrap()).write(token);
        assert!(!bytes.windows(4).any(|bytes| token.0.windows(4).any(|part| part == bytes)));
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

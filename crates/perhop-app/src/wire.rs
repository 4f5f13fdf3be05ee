//! Headers of requests and frames on real connections.
//!
//! A request is a header of [`REQUEST_BYTES`] bytes, padded to its length. A response on a
//! connection that is not multiplexed has no header: responses come in the order of the requests,
//! each with the length that its request asks for. On a multiplexed connection every frame has a
//! header of [`FRAME_BYTES`] bytes, laid out as a DATA frame of HTTP/2 (RFC 9113, section 4.1).

use perhop_core::Duration;

use crate::{Frame, Request};

/// Length of the header of a request, in bytes: the shortest request.
pub const REQUEST_BYTES: u64 = 32;

/// Length of the header of a frame, in bytes.
pub const FRAME_BYTES: u32 = 9;

/// Longest payload of a frame, in bytes: HTTP/2's initial SETTINGS_MAX_FRAME_SIZE (RFC 9113,
/// section 6.5.2).
pub const MAX_FRAME: u64 = 16_384;

/// First bytes of a request.
const MAGIC: [u8; 4] = *b"phR1";

/// Flag of the last frame of a response.
const END_STREAM: u8 = 1;

impl Request {
    /// Returns the header.
    pub fn emit(&self) -> [u8; REQUEST_BYTES as usize] {
        let mut bytes = [0; REQUEST_BYTES as usize];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.exchange.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.request.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.response.to_be_bytes());
        bytes[24..].copy_from_slice(&self.think.as_picos().to_be_bytes());
        bytes
    }

    /// Reads a header; `None` if it is malformed.
    pub fn parse(bytes: &[u8; REQUEST_BYTES as usize]) -> Option<Self> {
        let long = |at: usize| {
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(value)
        };
        let (first, second) = (long(0), long(8));
        let request = Self {
            exchange: first as u32,
            request: second,
            response: long(16),
            think: Duration::from_picos(long(24)),
        };
        let sound = bytes[..4] == MAGIC && request.request >= REQUEST_BYTES && request.response > 0;
        sound.then_some(request)
    }
}

impl Frame {
    /// Returns the header of a frame of a multiplexed connection.
    pub fn emit(&self) -> [u8; FRAME_BYTES as usize] {
        let [_, length @ ..] = (self.payload as u32).to_be_bytes();
        let [a, b, c, d] = self.exchange.to_be_bytes();
        let flags = if self.last { END_STREAM } else { 0 };
        [length[0], length[1], length[2], 0, flags, a, b, c, d]
    }

    /// Reads the header of a frame of a multiplexed connection; `None` if it is malformed.
    pub fn parse(bytes: &[u8; FRAME_BYTES as usize]) -> Option<Self> {
        let &[x, y, z, kind, flags, a, b, c, d] = bytes;
        let payload = u64::from(u32::from_be_bytes([0, x, y, z]));
        let exchange = u32::from_be_bytes([a, b, c, d]);
        let sound = kind == 0 && flags <= END_STREAM && (1..=MAX_FRAME).contains(&payload);
        sound.then_some(Self { exchange, header: FRAME_BYTES, payload, last: flags == END_STREAM })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_are_read_as_they_were_written(
            exchange: u32,
            request in REQUEST_BYTES..,
            response in 1_u64..,
            think: u64,
            payload in 1..=MAX_FRAME,
            last: bool,
        ) {
            let think = Duration::from_picos(think);
            let request = Request { exchange, request, response, think };
            prop_assert_eq!(Request::parse(&request.emit()), Some(request));
            let frame = Frame { exchange, header: FRAME_BYTES, payload, last };
            prop_assert_eq!(Frame::parse(&frame.emit()), Some(frame));
        }

        #[test]
        fn fuzz_headers_of_other_programs_are_refused(bytes: [u8; 32], frame: [u8; 9]) {
            if let Some(request) = Request::parse(&bytes) {
                prop_assert_eq!(request.emit(), bytes);
            }
            if let Some(read) = Frame::parse(&frame) {
                prop_assert_eq!(read.emit(), frame);
            }
        }
    }

    #[test]
    fn a_request_needs_room_for_its_header() {
        let request = Request { exchange: 1, request: 31, response: 1, think: Duration::ZERO };
        assert_eq!(Request::parse(&request.emit()), None);
        assert_eq!(Request::parse(&[0; 32]), None);
    }
}

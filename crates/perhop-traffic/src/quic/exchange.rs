//! Requests and responses on a connection: each pair has a stream of its own, as in HTTP/3 (RFC
//! 9114, section 4.1).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use perhop_app::wire::REQUEST_BYTES;
use perhop_app::{Event, Request};
use perhop_core::Time;
use quinn_proto::{Connection, Dir, StreamId};

use super::outgoing::Outgoing;
use crate::app::{Headers, Piece};

/// The client's end of a connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Exchange of each stream whose response has not ended.
    exchanges: BTreeMap<StreamId, u32>,
    /// Requests that wait until the server permits more streams.
    waiting: VecDeque<Request>,
    /// True once the connection has opened.
    pub open: bool,
    /// True once the client has closed the connection.
    pub closing: bool,
}

impl Client {
    /// Sends a request.
    pub fn request(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// Opens the streams of requests that wait.
    pub fn open_streams(&mut self, connection: &mut Connection, outgoing: &mut Outgoing) {
        while !self.waiting.is_empty()
            && let Some(stream) = connection.streams().open(Dir::Bi)
            && let Some(request) = self.waiting.pop_front()
        {
            self.exchanges.insert(stream, request.exchange);
            let head = Bytes::copy_from_slice(&request.emit());
            outgoing.add(stream, head, request.request - REQUEST_BYTES);
        }
    }

    /// Takes bytes of a response. Returns the news for the client.
    pub fn take(&self, stream: StreamId, bytes: u64) -> Option<Event> {
        let exchange = *self.exchanges.get(&stream)?;
        Some(Event::Received { exchange, bytes })
    }

    /// Forgets a stream whose response has ended.
    pub fn end(&mut self, stream: StreamId) {
        self.exchanges.remove(&stream);
    }
}

/// A request that arrives.
#[derive(Debug, Default)]
struct Arriving {
    headers: Headers<{ REQUEST_BYTES as usize }>,
    request: Option<Request>,
}

/// The server's end of a connection.
#[derive(Debug, Default)]
pub(super) struct Server {
    requests: BTreeMap<StreamId, Arriving>,
    /// Responses by the time at which they are ready: streams, and their bytes.
    responses: BTreeSet<(Time, StreamId, u64)>,
}

impl Server {
    /// Takes bytes of a request; `false` if it is malformed.
    pub fn take(&mut self, now: Time, stream: StreamId, mut bytes: &[u8]) -> bool {
        let Arriving { headers, request } = self.requests.entry(stream).or_default();
        while let Some(piece) = headers.next(&mut bytes) {
            if let Piece::Header(header) = piece {
                let Some(read) = Request::parse(&header).filter(|_| request.is_none()) else {
                    return false;
                };
                headers.body = read.request - REQUEST_BYTES;
                *request = Some(read);
            }
        }
        if let (0, Some(request)) = (headers.body, *request) {
            self.requests.remove(&stream);
            self.responses.insert((now + request.think, stream, request.response));
        }
        true
    }

    /// Returns the instant at which the next response is ready.
    pub fn deadline(&self) -> Time {
        self.responses.first().map_or(Time::MAX, |&(ready, ..)| ready)
    }

    /// Writes the responses that are ready.
    pub fn respond(&mut self, now: Time, outgoing: &mut Outgoing) {
        while let Some(&(ready, stream, bytes)) = self.responses.first()
            && ready <= now
        {
            self.responses.pop_first();
            outgoing.add(stream, Bytes::new(), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Duration;
    use proptest::prelude::*;
    use quinn_proto::Side;

    fn stream(number: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Bi, number)
    }

    proptest! {
        #[test]
        fn requests_that_arrive_in_pieces_are_answered_once(
            lengths in prop::collection::vec(REQUEST_BYTES..200, 1..10),
            pieces in prop::collection::vec((any::<prop::sample::Index>(), 1..50_usize), 1..100),
        ) {
            let requests = lengths.iter().enumerate().map(|(number, &length)| Request {
                exchange: number as u32,
                request: length,
                response: 1 + number as u64,
                think: Duration::from_millis(length),
            });
            let requests: Vec<_> = requests.collect();
            let mut left: Vec<_> = requests
                .iter()
                .map(|request| {
                    let mut bytes = request.emit().to_vec();
                    bytes.resize(request.request as usize, 0);
                    bytes
                })
                .collect();
            let mut server = Server::default();
            let rest = (0..lengths.len()).map(|number| (number, usize::MAX));
            let pieces = pieces.iter().map(|(index, length)| (index.index(lengths.len()), *length));
            for (number, length) in pieces.chain(rest) {
                let bytes = &mut left[number];
                let piece: Vec<_> = bytes.drain(..length.min(bytes.len())).collect();
                if !piece.is_empty() {
                    prop_assert!(server.take(Time::ZERO, stream(number as u64), &piece));
                }
            }
            let answered: BTreeSet<_> = requests
                .iter()
                .map(|each| (Time::ZERO + each.think, stream(each.exchange.into()), each.response))
                .collect();
            prop_assert_eq!(server.responses, answered);
            prop_assert!(server.requests.is_empty());
        }

        #[test]
        fn fuzz_foreign_requests_are_refused(bytes in prop::collection::vec(0..9_u8, 64)) {
            let mut server = Server::default();
            prop_assert!(!server.take(Time::ZERO, stream(0), &bytes));
            prop_assert_eq!(server.deadline(), Time::MAX);
        }
    }
}

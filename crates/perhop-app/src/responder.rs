//! The server's side of a connection.

use std::collections::VecDeque;

use perhop_core::Time;

use crate::wire::{FRAME_BYTES, MAX_FRAME};
use crate::{Frame, Request};

/// A response that is not written as a whole.
#[derive(Clone, Copy, Debug)]
struct Response {
    exchange: u32,
    left: u64,
    /// Time from which it can be written.
    ready: Time,
}

/// Answers the requests of one connection.
///
/// On a multiplexed connection, frames of all responses that are ready take turns. Otherwise
/// responses are written one after the other, in the order of their requests, as HTTP/1.1 does
/// (RFC 9112, section 9.3.2).
#[derive(Clone, Debug)]
pub struct Responder {
    multiplexed: bool,
    responses: VecDeque<Response>,
}

impl Responder {
    /// Creates the server's side of a connection.
    pub fn new(multiplexed: bool) -> Self {
        Self { multiplexed, responses: VecDeque::new() }
    }

    /// Takes a request that has arrived as a whole.
    pub fn on_request(&mut self, now: Time, request: &Request) {
        let ready = now + request.think;
        let response = Response { exchange: request.exchange, left: request.response, ready };
        self.responses.push_back(response);
    }

    /// Returns the earliest time at which [`next_frame`](Self::next_frame) has a frame;
    /// [`Time::MAX`] if that depends on other requests.
    pub fn deadline(&self) -> Time {
        let considered = if self.multiplexed { self.responses.len() } else { 1 };
        let ready = self.responses.iter().take(considered).map(|response| response.ready);
        ready.min().unwrap_or(Time::MAX)
    }

    /// Returns `true` if every response was written.
    pub fn is_idle(&self) -> bool {
        self.responses.is_empty()
    }

    /// Returns the next frame to write, if a response is ready. A driver asks when its connection
    /// has room for more, so that responses are interleaved as they are sent.
    pub fn next_frame(&mut self, now: Time) -> Option<Frame> {
        let place = match self.multiplexed {
            false => (self.responses.front()?.ready <= now).then_some(0)?,
            true => self.responses.iter().position(|response| response.ready <= now)?,
        };
        let mut response = self.responses.remove(place)?;
        let payload = response.left.min(MAX_FRAME);
        response.left -= payload;
        let last = response.left == 0;
        match (last, self.multiplexed) {
            (true, _) => {}
            (false, false) => self.responses.push_front(response),
            (false, true) => self.responses.push_back(response),
        }
        let header = if self.multiplexed { FRAME_BYTES } else { 0 };
        Some(Frame { exchange: response.exchange, header, payload, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Duration;

    fn request(exchange: u32, response: u64, think: u64) -> Request {
        Request { exchange, request: 100, response, think: Duration::from_millis(think) }
    }

    fn frames(multiplexed: bool, requests: &[Request], at: Time) -> Vec<(u32, u64)> {
        let mut responder = Responder::new(multiplexed);
        requests.iter().for_each(|request| responder.on_request(Time::ZERO, request));
        std::iter::from_fn(|| responder.next_frame(at)).map(|f| (f.exchange, f.payload)).collect()
    }

    #[test]
    fn responses_take_turns_only_on_a_multiplexed_connection() {
        let requests = [request(7, 40_000, 0), request(8, 20_000, 0)];
        let one_by_one = [(7, 16_384), (7, 16_384), (7, 7_232), (8, 16_384), (8, 3_616)];
        let in_turn = [(7, 16_384), (8, 16_384), (7, 16_384), (8, 3_616), (7, 7_232)];
        assert_eq!(frames(false, &requests, Time::ZERO), one_by_one);
        assert_eq!(frames(true, &requests, Time::ZERO), in_turn);
    }

    /// Head-of-line blocking at the server.
    #[test]
    fn a_slow_response_holds_up_others_only_without_multiplexing() {
        let requests = [request(1, 10, 50), request(2, 10, 0)];
        assert_eq!(frames(false, &requests, Time::ZERO), []);
        assert_eq!(frames(true, &requests, Time::ZERO), [(2, 10)]);
        let later = Time::ZERO + Duration::from_millis(50);
        assert_eq!(frames(false, &requests, later), [(1, 10), (2, 10)]);
        let mut responder = Responder::new(true);
        requests.iter().for_each(|request| responder.on_request(Time::ZERO, request));
        assert_eq!(responder.deadline(), Time::ZERO);
        let _ = responder.next_frame(Time::ZERO);
        assert_eq!(responder.deadline(), later);
    }
}

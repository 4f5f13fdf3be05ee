//! A controller's connection to one agent.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use perhop_socket::{Nanos, monotonic};

use super::clocks::PeerClock;
use super::error::{LiveError, is_not_allowed, is_wrong_key};
use super::live::AgentFacts;
use crate::channel::{Channel, ChannelError, wait};
use crate::frames::{
    self, ErrorCode, HostFacts, LONGEST_GREETING, LONGEST_REPLY, Reply, Request, VERSION,
};
use crate::key::{Identity, PublicKey};
use crate::limits::Limits;
use crate::session::program_name;
use crate::tls;

/// Time within which an agent must answer the first request.
const GREETING: Duration = Duration::from_secs(10);
/// Characters of a text of an agent that are shown.
const LONGEST_TEXT: usize = 2000;

/// Returns a text of an agent without control characters, which could change the terminal or the
/// log in which it is shown, and at most [`LONGEST_TEXT`] characters of it.
fn printable(text: &str) -> String {
    frames::printable(text).chars().take(LONGEST_TEXT).collect()
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Peer {
    /// Its node.
    pub node: String,
    /// Its address.
    pub address: SocketAddr,
    /// Its owner's limits.
    pub limits: Limits,
    /// Estimates of its clocks.
    pub clock: PeerClock,
    /// The UDP port of its reflector for other agents.
    pub clock_port: Option<u16>,
    /// The nodes that send to it.
    pub senders: Vec<String>,
    host: HostFacts,
    channel: Channel,
}

impl Peer {
    /// Connects to an agent that has `key`, and sends `hello`.
    ///
    /// # Errors
    /// [`LiveError`] if it cannot be reached, has another key, or does not allow ours.
    pub fn connect(
        node: &str,
        address: SocketAddr,
        key: PublicKey,
        identity: &Identity,
    ) -> Result<Self, LiveError> {
        let node = node.to_owned();
        let socket = match TcpStream::connect_timeout(&address, GREETING) {
            Ok(socket) => socket,
            Err(error) => return Err(LiveError::Connect { node, address, error }),
        };
        let disconnected = |error| LiveError::Disconnected { node: node.clone(), address, error };
        let tls = tls::controller(identity, key).and_then(|config| tls::connect(&config));
        let tls = tls.map_err(|error| disconnected(error.into()))?;
        let channel = Channel::new(socket, tls, LONGEST_GREETING);
        let channel = channel.map_err(|error| disconnected(error.into()))?;
        let limits = Limits::default();
        let mut peer = Self {
            node,
            address,
            limits,
            clock: PeerClock::new(),
            clock_port: None,
            senders: Vec::new(),
            host: HostFacts::default(),
            channel,
        };
        peer.send(&Request::Hello { version: VERSION, program: program_name() });
        let reply = peer.reply(GREETING, "answered").map_err(|error| match error {
            LiveError::Disconnected { node, address, error: ChannelError::Tls(error) }
                if is_wrong_key(&error) =>
            {
                LiveError::WrongKey { node, address, key }
            }
            LiveError::Disconnected { node, address, error: ChannelError::Tls(error) }
                if is_not_allowed(&error) =>
            {
                LiveError::NotAllowed { node, address, key: identity.public() }
            }
            other => other,
        })?;
        match reply {
            Reply::Hello { limits, host, .. } => {
                peer.limits = limits;
                peer.host = host;
                peer.channel.set_longest(LONGEST_REPLY);
                Ok(peer)
            }
            other => Err(peer.unexpected(&other)),
        }
    }

    /// Queues a request.
    pub fn send(&mut self, request: &Request) {
        self.channel.send(request);
    }

    /// Returns the connection, to wait for it.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Returns the next reply that has arrived, without waiting. Answers to [`Request::Time`] are
    /// used for its clock and not returned.
    ///
    /// # Errors
    /// [`LiveError`] if the connection has ended, or the agent reports an error.
    pub fn poll(&mut self) -> Result<Option<Reply>, LiveError> {
        if let Some(reply) = self.next()? {
            return Ok(Some(reply));
        }
        self.channel.progress().map_err(|error| self.disconnected(error))?;
        self.next()
    }

    fn next(&mut self) -> Result<Option<Reply>, LiveError> {
        while let Some(received) =
            self.channel.receive().map_err(|error| self.disconnected(error))?
        {
            let reply =
                frames::read(&received.frame).map_err(|error| self.disconnected(error.into()))?;
            match reply {
                Reply::Time { sent, received: there, answered, realtime_ahead } => {
                    self.clock.add([sent, there, answered, received.at], realtime_ahead);
                }
                Reply::Error { code, message } => {
                    let (node, address) = (self.node.clone(), self.address);
                    let mut message = printable(&message);
                    if code == ErrorCode::Malformed {
                        let (theirs, ours) = (printable(&self.host.program), program_name());
                        message += &format!(
                            "; it is {theirs}, and this is {ours}: install the same perhop on both"
                        );
                    }
                    return Err(LiveError::Refused { node, address, code, message });
                }
                Reply::Readings(mut readings) => {
                    let texts = readings.warnings.iter_mut().chain(&mut readings.missing);
                    texts.for_each(|text| *text = printable(text));
                    return Ok(Some(Reply::Readings(readings)));
                }
                reply => return Ok(Some(reply)),
            }
        }
        Ok(None)
    }

    /// Waits for a reply.
    ///
    /// # Errors
    /// As [`poll`](Self::poll), and [`LiveError::Late`].
    pub fn reply(&mut self, within: Duration, what: &'static str) -> Result<Reply, LiveError> {
        let until = monotonic() + within.as_nanos() as Nanos;
        loop {
            if let Some(reply) = self.poll()? {
                return Ok(reply);
            }
            if monotonic() > until {
                return Err(self.late(what, within));
            }
            wait(&[&self.channel], until);
        }
    }

    /// Sends a request for the time, without waiting for the answer.
    pub fn ask_time(&mut self) {
        self.send(&Request::Time { sent: monotonic() });
    }

    /// Sends what is possible without waiting.
    ///
    /// # Errors
    /// [`LiveError::Disconnected`] if the connection has ended.
    pub fn flush(&mut self) -> Result<(), LiveError> {
        self.channel.flush().map_err(|error| self.disconnected(error))
    }

    /// Checks that something has arrived within the time of silence that its owner allows.
    ///
    /// # Errors
    /// [`LiveError::Disconnected`].
    pub fn check_silence(&self) -> Result<(), LiveError> {
        self.channel.check_silence(self.limits.silence).map_err(|error| self.disconnected(error))
    }

    /// Returns the offset of its monotonic clock now, and the largest distance of its start from
    /// the common start, both in nanoseconds.
    pub fn offset(&self) -> (i64, Nanos) {
        let offset = self.clock.monotonic(monotonic());
        offset.map_or((0, 0), |offset| (offset.ahead, offset.bound))
    }

    /// Returns facts for the manifest of a run.
    pub fn facts(&self) -> AgentFacts {
        let HostFacts { program, kernel, clock } = &self.host;
        AgentFacts {
            node: self.node.clone(),
            facts: vec![
                ("address", self.address.to_string()),
                ("program", printable(program)),
                ("kernel", printable(kernel)),
                ("clock", printable(clock)),
            ],
            start_bound: self.offset().1,
        }
    }

    fn disconnected(&self, error: ChannelError) -> LiveError {
        LiveError::Disconnected { node: self.node.clone(), address: self.address, error }
    }

    /// Returns the error of an unexpected reply.
    pub fn unexpected(&self, reply: &Reply) -> LiveError {
        let error = frames::FrameError::Malformed(format!("unexpected reply {reply:.80?}"));
        self.disconnected(error.into())
    }

    /// Returns the error of impossible readings.
    pub fn unusable(&self, what: &str) -> LiveError {
        self.disconnected(frames::FrameError::Malformed(what.to_owned()).into())
    }

    /// Returns the error of an agent that has not answered in time.
    pub fn late(&self, what: &'static str, within: Duration) -> LiveError {
        let (node, address) = (self.node.clone(), self.address);
        LiveError::Late { node, address, what, seconds: within.as_secs() }
    }

    /// Closes the connection without waiting.
    pub fn leave(self) {
        self.channel.close(Duration::ZERO);
    }

    /// Closes the connection.
    pub fn close(self) {
        self.channel.close(Duration::from_millis(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_agents_are_printable() {
        assert_eq!(
            printable("no \u{1b}[2J\r\nsuch \u{9b}port: é"),
            "no \u{fffd}[2J\u{fffd}\u{fffd}such \u{fffd}port: é"
        );
        assert_eq!(printable(&"long".repeat(1000)).len(), LONGEST_TEXT);
    }
}

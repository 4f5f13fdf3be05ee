//! A controller's connection to one agent.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use perhop_socket::{Nanos, monotonic};

use super::error::{LiveError, is_not_allowed, is_wrong_key};
use crate::channel::{Channel, Gone, wait};
use crate::frames::{self, LONGEST_GREETING, LONGEST_REPLY, Reply, Request, VERSION};
use crate::key::{Identity, PublicKey};
use crate::limits::Limits;
use crate::session::program_name;
use crate::tls;

/// How long an agent may take to answer the first request.
const GREETING: Duration = Duration::from_secs(10);
/// Exchanges of time at the beginning, from which the offset of the clocks follows.
const EXCHANGES: usize = 16;

/// What is known of an agent's clock: the exchange that took the least time.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// How far the agent's monotonic clock is ahead of ours, in nanoseconds.
    pub monotonic: i64,
    /// How far the agent's real-time clock is ahead of our monotonic clock, in nanoseconds.
    pub realtime: i64,
    /// How wrong both may be: half the time that the exchange took on the way, in nanoseconds.
    pub bound: u64,
    /// When this was read, by our monotonic clock.
    pub at: Nanos,
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Peer {
    /// The node that it is.
    pub node: String,
    /// Where it is.
    pub address: SocketAddr,
    /// What its owner allows.
    pub limits: Limits,
    /// What it cannot do, in words.
    pub missing: Vec<String>,
    /// What is known of its clock.
    pub clock: Option<ClockReading>,
    channel: Channel,
}

impl Peer {
    /// Connects to an agent that has `key`, and greets it.
    ///
    /// # Errors
    /// [`LiveError`] if it is not there, not itself, or does not allow us.
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
        let gone = |gone| LiveError::Gone { node: node.clone(), address, gone };
        let tls = tls::controller(identity, key).and_then(|config| tls::connect(&config));
        let tls = tls.map_err(|error| gone(error.into()))?;
        let channel = Channel::new(socket, tls, LONGEST_GREETING);
        let channel = channel.map_err(|error| gone(error.into()))?;
        let limits = Limits::default();
        let mut peer = Self { node, address, limits, missing: Vec::new(), clock: None, channel };
        peer.send(&Request::Hello { version: VERSION, program: program_name() });
        let reply = peer.reply(GREETING, "answered").map_err(|error| match error {
            LiveError::Gone { node, address, gone: Gone::Tls(error) } if is_wrong_key(&error) => {
                LiveError::WrongKey { node, address, key }
            }
            LiveError::Gone { node, address, gone: Gone::Tls(error) } if is_not_allowed(&error) => {
                LiveError::NotAllowed { node, address, key: identity.public() }
            }
            other => other,
        })?;
        match reply {
            Reply::Hello { limits, missing, .. } => {
                peer.limits = limits;
                peer.missing = missing;
                peer.channel.set_longest(LONGEST_REPLY);
                Ok(peer)
            }
            other => Err(peer.unexpected(&other)),
        }
    }

    /// Has a request sent.
    pub fn send(&mut self, request: &Request) {
        self.channel.send(request);
    }

    /// The connection, to wait for it.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Reads what has come without waiting: the next reply, or none. Answers to
    /// [`Request::Time`] are taken note of and not returned.
    ///
    /// # Errors
    /// [`LiveError`] if the connection is over, or the agent says that it has failed.
    pub fn poll(&mut self) -> Result<Option<Reply>, LiveError> {
        if let Some(reply) = self.next()? {
            return Ok(Some(reply));
        }
        self.channel.progress().map_err(|gone| self.gone(gone))?;
        self.next()
    }

    fn next(&mut self) -> Result<Option<Reply>, LiveError> {
        while let Some(received) = self.channel.receive().map_err(|gone| self.gone(gone))? {
            let reply = frames::read(&received.frame).map_err(|error| self.gone(error.into()))?;
            match reply {
                Reply::Time { sent, received: there, answered, realtime_ahead } => {
                    self.note_time([sent, there, answered, received.at], realtime_ahead);
                }
                Reply::Error { code, message } => {
                    let (node, address) = (self.node.clone(), self.address);
                    return Err(LiveError::Refused { node, address, code, message });
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
                let (node, address) = (self.node.clone(), self.address);
                return Err(LiveError::Late { node, address, what, seconds: within.as_secs() });
            }
            wait(&[&self.channel], until);
        }
    }

    /// Asks for the time, without waiting for the answer.
    pub fn ask_time(&mut self) {
        self.send(&Request::Time { sent: monotonic() });
    }

    /// Finds out how far the agent's clock is ahead.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub fn compare_clocks(&mut self) -> Result<(), LiveError> {
        self.clock = None;
        for _ in 0..EXCHANGES {
            self.ask_time();
            self.send(&Request::Status {});
            match self.reply(GREETING, "answered")? {
                Reply::Status(_) => {}
                other => return Err(self.unexpected(&other)),
            }
        }
        Ok(())
    }

    /// Takes note of an exchange of time: sent here, received there, answered there, received
    /// here (RFC 5905, section 8).
    fn note_time(&mut self, [sent, there, answered, here]: [Nanos; 4], realtime_ahead: i64) {
        let held = answered.saturating_sub(there);
        let way = here.saturating_sub(sent).saturating_sub(held);
        let ahead = i128::from(there) - i128::from(sent) + i128::from(answered) - i128::from(here);
        let Ok(monotonic) = i64::try_from(ahead / 2) else { return };
        let bound = way.div_ceil(2);
        if self.clock.is_none_or(|best| bound < best.bound) {
            let realtime = monotonic.saturating_add(realtime_ahead);
            self.clock = Some(ClockReading { monotonic, realtime, bound, at: here });
        }
    }

    /// Ends an agent that has been silent for longer than `most`.
    ///
    /// # Errors
    /// [`LiveError::Gone`].
    pub fn check_silence(&self, most: Nanos) -> Result<(), LiveError> {
        self.channel.check_silence(most).map_err(|gone| self.gone(gone))
    }

    fn gone(&self, gone: Gone) -> LiveError {
        LiveError::Gone { node: self.node.clone(), address: self.address, gone }
    }

    /// The error of a reply that was not asked for.
    pub fn unexpected(&self, reply: &Reply) -> LiveError {
        let error = frames::FrameError::Malformed(format!("unexpected reply {reply:.80?}"));
        self.gone(error.into())
    }

    /// Ends the connection.
    pub fn close(self) {
        self.channel.close(Duration::from_millis(500));
    }
}

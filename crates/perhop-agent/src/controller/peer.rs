//! A controller's connection to one agent.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use perhop_socket::{Nanos, monotonic};

use super::clocks::PeerClock;
use super::error::{LiveError, is_not_allowed, is_wrong_key};
use super::live::AgentFacts;
use crate::channel::{Channel, Gone, wait};
use crate::frames::{self, HostFacts, LONGEST_GREETING, LONGEST_REPLY, Reply, Request, VERSION};
use crate::key::{Identity, PublicKey};
use crate::limits::Limits;
use crate::session::program_name;
use crate::tls;

/// How long an agent may take to answer the first request.
const GREETING: Duration = Duration::from_secs(10);

/// A connection to an agent.
#[derive(Debug)]
pub struct Peer {
    /// The node that it is.
    pub node: String,
    /// Where it is.
    pub address: SocketAddr,
    /// What its owner allows.
    pub limits: Limits,
    /// What is known of its clock.
    pub clock: PeerClock,
    /// The port at which its clock is told to other agents.
    pub clock_port: Option<u16>,
    /// The nodes that send something to it.
    pub senders: Vec<String>,
    host: HostFacts,
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
            LiveError::Gone { node, address, gone: Gone::Tls(error) } if is_wrong_key(&error) => {
                LiveError::WrongKey { node, address, key }
            }
            LiveError::Gone { node, address, gone: Gone::Tls(error) } if is_not_allowed(&error) => {
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
                    self.clock.add([sent, there, answered, received.at], realtime_ahead);
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
                return Err(self.late(what, within));
            }
            wait(&[&self.channel], until);
        }
    }

    /// Asks for the time, without waiting for the answer.
    pub fn ask_time(&mut self) {
        self.send(&Request::Time { sent: monotonic() });
    }

    /// Sends what is possible without waiting.
    ///
    /// # Errors
    /// [`LiveError::Gone`] if the connection is over.
    pub fn flush(&mut self) -> Result<(), LiveError> {
        self.channel.flush().map_err(|gone| self.gone(gone))
    }

    /// Refuses an agent from which nothing has come for longer than its owner bears with silence.
    ///
    /// # Errors
    /// [`LiveError::Gone`].
    pub fn check_silence(&self) -> Result<(), LiveError> {
        self.channel.check_silence(self.limits.silence).map_err(|gone| self.gone(gone))
    }

    /// How far its monotonic clock is ahead now, and how far from the common start it starts at
    /// most, both in nanoseconds.
    pub fn offset(&self) -> (i64, Nanos) {
        let offset = self.clock.monotonic(monotonic());
        offset.map_or((0, 0), |offset| (offset.ahead, offset.bound))
    }

    /// Facts for the manifest of a run.
    pub fn facts(&self) -> AgentFacts {
        let HostFacts { program, kernel, clock } = &self.host;
        AgentFacts {
            node: self.node.clone(),
            facts: vec![
                ("address", self.address.to_string()),
                ("program", program.clone()),
                ("kernel", kernel.clone()),
                ("clock", clock.clone()),
            ],
            start_bound: self.offset().1,
        }
    }

    fn gone(&self, gone: Gone) -> LiveError {
        LiveError::Gone { node: self.node.clone(), address: self.address, gone }
    }

    /// The error of a reply that was not asked for.
    pub fn unexpected(&self, reply: &Reply) -> LiveError {
        let error = frames::FrameError::Malformed(format!("unexpected reply {reply:.80?}"));
        self.gone(error.into())
    }

    /// The error of readings that cannot be.
    pub fn unusable(&self, what: &str) -> LiveError {
        self.gone(frames::FrameError::Malformed(what.to_owned()).into())
    }

    /// The error of an agent that has not answered in time.
    pub fn late(&self, what: &'static str, within: Duration) -> LiveError {
        let (node, address) = (self.node.clone(), self.address);
        LiveError::Late { node, address, what, seconds: within.as_secs() }
    }

    /// Ends the connection without waiting.
    pub fn leave(self) {
        self.channel.close(Duration::ZERO);
    }

    /// Ends the connection.
    pub fn close(self) {
        self.channel.close(Duration::from_millis(500));
    }
}

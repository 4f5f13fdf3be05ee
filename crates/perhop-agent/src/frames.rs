//! Frames of the control connection, and the messages in them.
//!
//! A frame is a length of four bytes, most significant first, and a JSON text of that length. The
//! controller sends a [`Request`], the agent a [`Reply`]: an object of one key, the kind of
//! message. Unknown kinds and keys are refused. docs/agent.md describes each.

use perhop_traffic::{Job, Readings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::Limits;

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// Longest frame before both sides have said [`Hello`](Request::Hello), in bytes.
pub const LONGEST_GREETING: usize = 16 << 10;
/// Longest frame that an agent takes after that, in bytes.
pub const LONGEST_REQUEST: usize = 4 << 20;
/// Longest frame that a controller takes after that, in bytes.
pub const LONGEST_REPLY: usize = 16 << 20;
/// Bytes of the length.
const HEAD: usize = 4;

/// What is wrong with a frame.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// It is longer than it may be.
    #[error("a frame of {length} B; expected at most {limit} B")]
    TooLong {
        /// Its length.
        length: usize,
        /// The longest that is taken.
        limit: usize,
    },
    /// Its JSON is none, or not that of a message.
    #[error("malformed message: {0}")]
    Malformed(String),
}

/// Finds frames in a stream of bytes. It holds one frame at most, besides what was pushed last.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    limit: usize,
}

impl Decoder {
    /// A decoder at the beginning of a stream of frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// Takes frames of at most `limit` bytes from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Appends bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether a frame has begun and is not complete.
    pub fn is_partial(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the text of the next frame, if all of it is there.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] as soon as its length says so.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some((head, body)) = self.bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if body.len() < length {
            return Ok(None);
        }
        let rest = self.bytes.split_off(HEAD + length);
        let mut frame = std::mem::replace(&mut self.bytes, rest);
        frame.drain(..HEAD);
        Ok(Some(frame))
    }
}

/// Reads the message in a frame.
///
/// # Errors
/// [`FrameError::Malformed`] with the place of what is wrong.
pub fn read<M: DeserializeOwned>(frame: &[u8]) -> Result<M, FrameError> {
    let mut from = serde_json::Deserializer::from_slice(frame);
    let message = serde_path_to_error::deserialize(&mut from)
        .map_err(|error| FrameError::Malformed(brief(&error.to_string())))?;
    from.end().map_err(|error| FrameError::Malformed(brief(&error.to_string())))?;
    Ok(message)
}

/// An error may repeat what was sent: its beginning suffices.
fn brief(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Writes a frame with a message.
///
/// # Panics
/// If the message has no JSON, which would be our own bug, or more than 4 GiB of it.
pub fn write(message: &impl Serialize) -> Vec<u8> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message).expect("messages have JSON");
    let length = u32::try_from(frame.len() - HEAD).expect("a message of less than 4 GiB");
    frame[..HEAD].copy_from_slice(&length.to_be_bytes());
    frame
}

/// What a controller asks of an agent.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Begins the conversation.
    Hello {
        /// The version of the protocol.
        version: u32,
        /// The program's name and version, for messages to people.
        program: String,
    },
    /// Asks what time it is, and says that the controller is there.
    Time {
        /// When the controller sent this, by its monotonic clock, in nanoseconds.
        sent: u64,
    },
    /// Asks what the agent does at present.
    Status {},
    /// Opens the sockets of a job.
    Prepare {
        /// The node that this agent is: the only one whose namespace is not null.
        node: String,
        /// The flows and pings, and what is measured.
        job: Box<Job>,
    },
    /// Proves that data is wanted where it will be sent.
    Prove {
        /// How long to try, in nanoseconds.
        within: u64,
        /// The agents whose clocks this one compares with its own: those that send to it.
        clocks: Vec<ClockPeer>,
    },
    /// Tells how far the agent's real-time clock is ahead of others', as the controller sees it.
    Clocks {
        /// One for each node that sends to the agent.
        clocks: Vec<PeerOffset>,
    },
    /// Begins the scenario.
    Start {
        /// When, by the agent's monotonic clock, in nanoseconds.
        zero: u64,
    },
    /// Ends the run where it is.
    Stop {},
}

/// What an agent says to a controller.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// Answers [`Request::Hello`].
    Hello {
        /// The version of the protocol.
        version: u32,
        /// What the agent's owner allows.
        limits: Limits,
        /// The host and the program.
        host: HostFacts,
    },
    /// Answers [`Request::Time`].
    Time {
        /// As in the request.
        sent: u64,
        /// When the request came, by the agent's monotonic clock, in nanoseconds.
        received: u64,
        /// When this was sent, by the agent's monotonic clock, in nanoseconds.
        answered: u64,
        /// How far the agent's real-time clock is ahead of its monotonic clock, in nanoseconds.
        realtime_ahead: i64,
    },
    /// Answers [`Request::Status`].
    Status(Status),
    /// The sockets of the job are open.
    Prepared {
        /// The UDP port at which other agents can ask for the time by STAMP (RFC 8762), if any.
        clock_port: Option<u16>,
    },
    /// Everybody who will be sent data has proved to want it.
    Proved {},
    /// The run will begin.
    Started {},
    /// What was measured at a mark.
    Readings(Box<Readings>),
    /// The run is over, and everything has been sent.
    Done {},
    /// The request is refused or the run has failed. The agent closes the connection.
    Error {
        /// What kind of error.
        code: ErrorCode,
        /// In words: what, where, what was expected, what to do.
        message: String,
    },
}

/// What an agent says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// The program's name and version.
    pub program: String,
    /// The kernel's release.
    pub kernel: String,
    /// Whether something keeps the host's clock right.
    pub clock: String,
}

/// An agent whose clock another one compares with its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClockPeer {
    /// The node.
    pub node: String,
    /// The port of its STAMP reflector.
    pub port: u16,
}

/// How far an agent's real-time clock is ahead of another's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PeerOffset {
    /// The node that is the other.
    pub node: String,
    /// When that is so, by the agent's real-time clock, in nanoseconds.
    pub at: u64,
    /// How far it is ahead, in nanoseconds.
    pub offset: i64,
    /// How fast that grows, in parts per billion.
    pub rate_ppb: i64,
    /// How wrong the offset may be, in nanoseconds.
    pub bound: u64,
}

/// What an agent does at present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Sessions: controllers that have prepared a run.
    pub sessions: u64,
    /// Connections of controllers, this one too.
    pub connections: u64,
    /// How long the agent has been up, in nanoseconds.
    pub up: u64,
}

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The other side has another version of the protocol.
    Version,
    /// A frame is too long, or its message malformed.
    Malformed,
    /// The request does not fit the state of the session.
    State,
    /// The agent's owner allows less.
    Limit,
    /// The agent has as many sessions as its owner allows.
    Busy,
    /// The job cannot be done on this host.
    Job,
    /// Data would go to somebody who has not proved to want it.
    Unproved,
    /// The start is in the past.
    Late,
    /// Nothing has come from the controller for too long.
    Silence,
    /// Anything else.
    Failed,
}

#[cfg(test)]
mod tests;

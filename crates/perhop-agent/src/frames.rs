//! Frames of the control connection, and the messages in them.
//!
//! A frame is a length of four bytes, most significant first, and a JSON text of that length. The
//! controller sends a [`Request`], the agent a [`Reply`]: an object of one key, the kind of
//! message. Unknown kinds and keys are refused. docs/agent.md describes all kinds.

use perhop_traffic::{Job, Readings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::Limits;

/// The version of the protocol.
pub const VERSION: u32 = 1;
/// Longest frame before both sides have sent [`Hello`](Request::Hello), in bytes.
pub const LONGEST_GREETING: usize = 16 << 10;
/// Longest frame that an agent accepts after that, in bytes.
pub const LONGEST_REQUEST: usize = 4 << 20;
/// Longest frame that a controller accepts after that, in bytes.
pub const LONGEST_REPLY: usize = 16 << 20;
/// Size of the length field in bytes.
const HEAD: usize = 4;

/// Fault of a frame.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is too long.
    #[error("a frame of {length} B; expected at most {limit} B")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// Maximum length in bytes.
        limit: usize,
    },
    /// The text is no JSON, or no message.
    #[error("malformed message: {0}")]
    Malformed(String),
}

/// Decoder of the frames in a stream of bytes. It holds at most one frame besides the bytes of the
/// last push.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    limit: usize,
}

impl Decoder {
    /// Returns a decoder for a stream of frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// Accepts frames of at most `limit` bytes from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Appends bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns whether a frame has begun and is not complete.
    pub fn is_partial(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the text of the next frame, if it is complete.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] as soon as its length is known.
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
/// [`FrameError::Malformed`] with the place of the error.
pub fn read<M: DeserializeOwned>(frame: &[u8]) -> Result<M, FrameError> {
    let mut from = serde_json::Deserializer::from_slice(frame);
    let message = serde_path_to_error::deserialize(&mut from)
        .map_err(|error| FrameError::Malformed(excerpt(&error.to_string())))?;
    from.end().map_err(|error| FrameError::Malformed(excerpt(&error.to_string())))?;
    Ok(message)
}

/// Returns the beginning of an error's text, which may repeat the message: without its control
/// characters, which could change the terminal or the log in which it is shown.
fn excerpt(text: &str) -> String {
    printable(text).chars().take(300).collect()
}

/// Returns a text of another program without control characters, nor those that turn the direction
/// of writing.
pub fn printable(text: &str) -> String {
    let hostile = |letter: char| {
        letter.is_control()
            || matches!(
                letter,
                '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            )
    };
    text.chars()
        .map(|letter| if hostile(letter) { char::REPLACEMENT_CHARACTER } else { letter })
        .collect()
}

/// Writes a frame with a message.
///
/// # Panics
/// If the message cannot be written as JSON, which would be a bug, or has 4 GiB or more.
pub fn write(message: &impl Serialize) -> Vec<u8> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message).expect("messages have JSON");
    let length = u32::try_from(frame.len() - HEAD).expect("a message of less than 4 GiB");
    frame[..HEAD].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Message from a controller to an agent.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Begins the session.
    Hello {
        /// The version of the protocol.
        version: u32,
        /// Name and version of the program, for messages to users.
        program: String,
    },
    /// Requests the agent's time, and shows that the controller is alive.
    Time {
        /// Time of sending by the controller's monotonic clock, in nanoseconds.
        sent: u64,
    },
    /// Requests the status of the agent.
    Status {},
    /// Opens the sockets of a job.
    Prepare {
        /// The node of this agent, the only one whose namespace is not null.
        node: String,
        /// The job: its flows, pings and measurements.
        job: Box<Job>,
    },
    /// Requests the proof that all receivers want data.
    Prove {
        /// Time limit of the proof, in nanoseconds.
        within: u64,
        /// The agents whose clocks this one measures: those that send to it.
        clocks: Vec<ClockPeer>,
    },
    /// Reports the offsets of the agent's real-time clock from others, as the controller has
    /// computed them.
    Clocks {
        /// One for each node that sends to the agent.
        clocks: Vec<PeerOffset>,
    },
    /// Begins the scenario.
    Start {
        /// Start by the agent's monotonic clock, in nanoseconds.
        zero: u64,
    },
    /// Ends the run now.
    Stop {},
}

/// Message from an agent to a controller.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// Answers [`Request::Hello`].
    Hello {
        /// The version of the protocol.
        version: u32,
        /// Limits of the agent's owner.
        limits: Limits,
        /// The host and the program.
        host: HostFacts,
    },
    /// Answers [`Request::Time`].
    Time {
        /// Time of sending, copied from the request.
        sent: u64,
        /// Time of arrival of the request by the agent's monotonic clock, in nanoseconds.
        received: u64,
        /// Time of sending of this reply by the agent's monotonic clock, in nanoseconds.
        answered: u64,
        /// The agent's real-time clock minus its monotonic clock, in nanoseconds.
        realtime_ahead: i64,
    },
    /// Answers [`Request::Status`].
    Status(Status),
    /// The sockets of the job are open.
    Prepared {
        /// UDP port of the STAMP reflector (RFC 8762) for the clocks of other agents, if it runs.
        clock_port: Option<u16>,
    },
    /// All receivers have proved that they want data.
    Proved {},
    /// The run will begin.
    Started {},
    /// Readings of a mark.
    Readings(Box<Readings>),
    /// The run is over, and all readings were sent.
    Done {},
    /// The request is refused or the run has failed. The agent closes the connection.
    Error {
        /// Kind of the error.
        code: ErrorCode,
        /// Text: the error, its place, the expected value and the remedy.
        message: String,
    },
}

/// Facts about the agent and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// Name and version of the program.
    pub program: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Synchronisation of the host's clock.
    pub clock: String,
}

/// An agent whose clock another agent measures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClockPeer {
    /// The node.
    pub node: String,
    /// The port of its STAMP reflector.
    pub port: u16,
}

/// Offset of an agent's real-time clock from another one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PeerOffset {
    /// The node of the other clock.
    pub node: String,
    /// Instant of the offset by the agent's real-time clock, in nanoseconds.
    pub at: u64,
    /// The agent's clock minus the other one, in nanoseconds.
    pub offset: i64,
    /// Growth of the offset, in parts per billion.
    pub rate_ppb: i64,
    /// Maximum error of the offset, in nanoseconds.
    pub bound: u64,
}

/// Status of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Sessions: connections of controllers that have prepared a run.
    pub sessions: u64,
    /// Connections of controllers, including this one.
    pub connections: u64,
    /// Time since the start of the agent, in nanoseconds.
    pub up: u64,
}

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The other side has another version of the protocol.
    Version,
    /// A frame is too long or takes too long, or its message is malformed.
    Malformed,
    /// The request does not fit the state of the session.
    State,
    /// The job exceeds a limit of the agent's owner.
    Limit,
    /// The agent has as many sessions as its owner allows.
    Busy,
    /// The job cannot run on this host.
    Job,
    /// A receiver has not proved that it wants data.
    Unproved,
    /// The start is in the past.
    Late,
    /// The controller has sent nothing for too long.
    Silence,
    /// Any other error.
    Failed,
}

#[cfg(test)]
mod tests;

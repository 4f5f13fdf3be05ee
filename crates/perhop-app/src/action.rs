//! Interface between a client and its driver.

use perhop_core::{Duration, Time};

/// A request, and the response that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the exchange, unique for its client.
    pub exchange: u32,
    /// Length of the request, in bytes; at least
    /// [`wire::REQUEST_BYTES`](crate::wire::REQUEST_BYTES).
    pub request: u64,
    /// Length of the response, in bytes, without headers of frames; at least 1.
    pub response: u64,
    /// Time that the server takes before it answers.
    pub think: Duration,
}

/// An instruction of a client to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a connection. Its number is unique for its client and rises.
    Open {
        /// Number of the connection.
        connection: u32,
        /// True if responses on it are interleaved in frames.
        multiplexed: bool,
    },
    /// Send a request over a connection that has opened.
    Request {
        /// Number of the connection.
        connection: u32,
        /// Request and response.
        request: Request,
    },
    /// Close a connection on which nothing is outstanding.
    Close {
        /// Number of the connection.
        connection: u32,
    },
    /// Record something that is complete.
    Finished(Record),
}

/// News for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection can carry requests.
    Opened {
        /// Number of the connection.
        connection: u32,
    },
    /// Bytes of a response have arrived, without headers of frames.
    Received {
        /// Number of the exchange.
        exchange: u32,
        /// Bytes since the last such event.
        bytes: u64,
    },
    /// A connection has failed or ended, although it was not closed; its exchanges end unfinished.
    Lost {
        /// Number of the connection.
        connection: u32,
    },
}

/// Kind of a [`Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A transfer.
    Transfer,
    /// A remote procedure call.
    Call,
    /// A page with all its objects.
    Page,
    /// A segment of a video.
    Segment,
    /// The time from the start of a video to that of its playback.
    Startup,
    /// A time in which the playback of a video had to wait.
    Stall,
}

impl RecordKind {
    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Call => "call",
            Self::Page => "page",
            Self::Segment => "segment",
            Self::Startup => "startup",
            Self::Stall => "stall",
        }
    }
}

/// Something that a client has completed, or that was incomplete at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Kind.
    pub kind: RecordKind,
    /// Number among those of its kind, in order of their starts.
    pub number: u32,
    /// Start: that of the wait for a connection, if any.
    pub start: Time,
    /// Arrival of the first byte of a response, if any has arrived.
    pub first_byte: Option<Time>,
    /// End; `None` if it was incomplete.
    pub end: Option<Time>,
    /// Bytes of its responses.
    pub bytes: u64,
    /// Number of its exchanges.
    pub exchanges: u32,
    /// Number of connections that were opened for it.
    pub opened: u32,
    /// Bit rate of a segment of video, in bit/s.
    pub bitrate: Option<u64>,
    /// Buffered playing time when a segment was complete.
    pub buffer: Option<Duration>,
}

impl Record {
    /// Creates the record of something that begins.
    pub(crate) fn begin(kind: RecordKind, number: u32, start: Time) -> Self {
        Self {
            kind,
            number,
            start,
            first_byte: None,
            end: None,
            bytes: 0,
            exchanges: 0,
            opened: 0,
            bitrate: None,
            buffer: None,
        }
    }
}

//! The client: one test against a server of iperf3.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use perhop_core::TrafficClass;
use perhop_socket::{Epoll, Event, Interest, Nanos, Socket, monotonic, random_bytes, sleep_until};
use perhop_traffic::Allowance;
use serde::Serialize;
use thiserror::Error;

use super::limits::{Limits, Plan};
use super::message::{Cookie, Parameters, Results, State, StreamResult, frame, stream_id};
use super::record::{Counts, Interval};
use super::setup;
use super::stream::{Room, Stream};

const SECOND: Nanos = 1_000_000_000;
/// Time limit of the server's messages.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the results of a server in bytes, with its output.
const MAX_RESULTS: usize = 4 << 20;
/// Time limit of the server's silence after the duration of a test, in nanoseconds.
const GRACE: Nanos = 5 * SECOND;

/// Reason why a test did not run, or broke off.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(SocketAddr, io::Error),
    /// A busy server: iperf3's own runs one test at a time.
    #[error("the server runs another test; try again when it is over")]
    Busy,
    /// An error that the server reports, by iperf3's number.
    #[error("the server refused or ended the test with iperf3's error {0}")]
    Refused(i32),
    /// A server that was stopped.
    #[error("the server was stopped")]
    Stopped,
    /// A malformed or unexpected message.
    #[error("the server does not speak iperf3's protocol: {0}")]
    Protocol(String),
    /// A connection that ended.
    #[error("the connection to the server was lost: {0}")]
    Lost(#[from] io::Error),
    /// Parameters that iperf3 does not support.
    #[error("iperf3 does not support this test: {0}")]
    Parameters(String),
}

/// Result of a test at the client.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Start of the data by the monotonic clock, in nanoseconds.
    pub start: Nanos,
    /// Streams in the order of their creation.
    pub streams: Vec<StreamOutcome>,
    /// The server's results.
    pub server: Results,
}

/// Measurements of a stream at both ends.
#[derive(Clone, Debug, Serialize)]
pub struct StreamOutcome {
    /// True if this end sent the data, false if it received them.
    pub sent: bool,
    /// The counts of this end.
    pub counts: Counts,
    /// Intervals of a second at this end.
    pub intervals: Vec<Interval>,
    /// For received UDP: packets by DSCP and ECN field.
    pub arrived: Option<Vec<(TrafficClass, u64)>>,
    /// Result of the server; values that it cannot measure are absent.
    pub server: Option<StreamResult>,
}

/// Runs a test against a server: TCP or UDP, in either direction or both. Parameters are those of
/// iperf3; `start` is the instant at which streams are opened, by the monotonic clock in
/// nanoseconds.
///
/// # Errors
/// [`ClientError`].
pub fn drive(
    server: SocketAddr,
    parameters: &Parameters,
    start: Option<Nanos>,
) -> Result<Outcome, ClientError> {
    let day = Duration::from_secs(86_400);
    let limits = Limits { duration: day, ..Limits::default() };
    let plan = limits.admit(parameters).map_err(|why| ClientError::Parameters(why.to_string()))?;
    let unreachable = |error| ClientError::Unreachable(server, error);
    let control = TcpStream::connect_timeout(&server, MESSAGE_TIMEOUT).map_err(unreachable)?;
    control.set_nodelay(true)?;
    let mut client = Client { control, server, cookie: cookie()?, plan };
    client.control.write_all(&client.cookie)?;
    client.await_state(State::ParameterExchange, MESSAGE_TIMEOUT)?;
    client.control.write_all(&frame(parameters))?;
    client.await_state(State::CreateStreams, MESSAGE_TIMEOUT)?;
    if let Some(start) = start {
        sleep_until(start);
    }
    let mut streams = client.make_streams(parameters)?;
    client.await_state(State::TestStart, MESSAGE_TIMEOUT)?;
    client.await_state(State::TestRunning, MESSAGE_TIMEOUT)?;
    client.run(&mut streams)
}

/// Returns 36 random letters and digits, and a NUL.
fn cookie() -> io::Result<Cookie> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie =
        random_bytes::<{ size_of::<Cookie>() }>()?.map(|byte| LETTERS[usize::from(byte % 32)]);
    cookie[36] = 0;
    Ok(cookie)
}

struct Client {
    control: TcpStream,
    server: SocketAddr,
    cookie: Cookie,
    plan: Plan,
}

impl Client {
    fn await_state(&mut self, expected: State, timeout: Duration) -> Result<(), ClientError> {
        self.control.set_read_timeout(Some(timeout))?;
        let mut byte = [0];
        self.control.read_exact(&mut byte)?;
        match State::of(byte[0]) {
            Some(state) if state == expected => Ok(()),
            other => Err(self.failure(other, byte[0])),
        }
    }

    /// Returns the error for an unexpected state.
    fn failure(&mut self, state: Option<State>, byte: u8) -> ClientError {
        match state {
            Some(State::AccessDenied) => ClientError::Busy,
            Some(State::ServerTerminate) => ClientError::Stopped,
            Some(State::ServerError) => {
                let mut code = [0; 8];
                match self.control.read_exact(&mut code) {
                    Ok(()) => ClientError::Refused(i32::from_be_bytes([
                        code[0], code[1], code[2], code[3],
                    ])),
                    Err(error) => error.into(),
                }
            }
            _ => ClientError::Protocol(format!("unexpected state {}", byte as i8)),
        }
    }

    fn make_streams(&self, parameters: &Parameters) -> Result<Vec<Stream>, ClientError> {
        // The server creates the streams that it receives first.
        let plan = &self.plan;
        let mut streams = Vec::new();
        for place in 0..plan.streams() {
            let socket = if plan.udp { self.begin_datagrams()? } else { self.connect(parameters)? };
            setup::prepare(&socket, self.server, plan, parameters);
            let udp = plan.udp.then_some(plan.wide);
            let sends = place < plan.receives;
            streams.push(Stream::new(stream_id(place), sends, (socket, self.server), udp));
        }
        Ok(streams)
    }

    fn connect(&self, parameters: &Parameters) -> Result<Socket, ClientError> {
        let unreachable = |error| ClientError::Unreachable(self.server, error);
        let socket = Socket::like(self.server, libc::SOCK_STREAM, 0)?;
        if let Some(mss) = parameters.mss.and_then(|mss| libc::c_int::try_from(mss).ok()) {
            socket.set((libc::IPPROTO_TCP, libc::TCP_MAXSEG), mss)?;
        }
        socket.connect(self.server).map_err(unreachable)?;
        let deadline = monotonic() + MESSAGE_TIMEOUT.as_nanos() as Nanos;
        wait(&socket, Interest::Writable, deadline)?;
        if let Some(error) = socket.take_error() {
            return Err(unreachable(error));
        }
        // A new connection has room for it.
        if socket.send(&self.cookie)? != self.cookie.len() {
            return Err(io::Error::from(ErrorKind::WriteZero).into());
        }
        Ok(socket)
    }

    fn begin_datagrams(&self) -> Result<Socket, ClientError> {
        let socket = Socket::like(self.server, libc::SOCK_DGRAM, 0)?;
        socket.stamp_arrivals()?;
        socket.report_traffic_class(self.server.ip())?;
        let _ = socket.set((libc::SOL_UDP, libc::UDP_GRO), 1);
        socket.connect(self.server)?;
        socket.send(b"9876")?;
        // It is not retransmitted, as in iperf3, because the server would treat a copy as another
        // stream.
        wait(&socket, Interest::Readable, monotonic() + MESSAGE_TIMEOUT.as_nanos() as Nanos)?;
        let mut answer = [0; 4];
        socket.read(&mut answer)?;
        Ok(socket)
    }

    fn run(mut self, streams: &mut [Stream]) -> Result<Outcome, ClientError> {
        let mut room = Room::new(&Allowance::default());
        let epoll = Epoll::new()?;
        epoll.add(self.control.as_fd(), 0, Interest::Readable)?;
        let zero = monotonic();
        let (rate, length) = (self.plan.rate, self.plan.length);
        let mut due = Vec::new();
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.begin((rate, length), zero);
            let interest = usual(stream, self.plan.udp);
            epoll.add(stream.as_fd(), number as u64 + 1, interest)?;
            due.push(if self.plan.udp && stream.sends { zero } else { Nanos::MAX });
        }
        let end = zero + self.plan.duration.as_nanos() as Nanos;
        let (mut marked, mut carried) = (zero, 0);
        let mut ready = [Event { events: 0, u64: 0 }; 64];
        loop {
            let now = monotonic();
            if now >= marked + SECOND {
                mark(streams, (marked - zero, marked + SECOND - zero), None);
                marked += SECOND;
                continue;
            }
            if now >= end || (self.plan.by_volume && carried >= self.plan.asked) {
                break;
            }
            let next = due.iter().copied().min().unwrap_or(Nanos::MAX);
            let count = epoll.wait(&mut ready, next.min(end).min(marked + SECOND))?;
            let now = monotonic();
            for event in &ready[..count] {
                match event.u64.checked_sub(1) {
                    Some(number) => due[number as usize] = 0,
                    None => {
                        let mut byte = [0];
                        self.control.read_exact(&mut byte)?;
                        return Err(self.failure(State::of(byte[0]), byte[0]));
                    }
                }
            }
            for (number, due) in due.iter_mut().enumerate().filter(|(_, due)| **due <= now) {
                let stream = &mut streams[number];
                *due = Nanos::MAX;
                if !stream.open {
                    continue;
                }
                let (bytes, again) = stream.run(&mut room, now);
                carried += bytes;
                *due = again.unwrap_or(Nanos::MAX);
                if !stream.open {
                    *due = Nanos::MAX;
                    epoll.remove(stream.as_fd())?;
                } else if self.plan.udp {
                    let _ = stream.socket.take_error();
                } else if again.is_some() != stream.held {
                    stream.held = again.is_some();
                    let interest = match stream.held {
                        true => Interest::Errors,
                        false => usual(stream, false),
                    };
                    epoll.change(stream.as_fd(), number as u64 + 1, interest)?;
                }
            }
        }
        self.finish(streams, &mut room, (zero, marked))
    }

    fn finish(
        mut self,
        streams: &mut [Stream],
        room: &mut Room,
        (zero, marked): (Nanos, Nanos),
    ) -> Result<Outcome, ClientError> {
        let ended = monotonic();
        self.control.write_all(&[State::TestEnd.byte()])?;
        self.await_state(State::ExchangeResults, Duration::from_nanos(GRACE))?;
        let result = |stream: &Stream| {
            let counts = stream.counts(None);
            StreamResult {
                id: stream.id,
                bytes: Some(counts.bytes),
                retransmits: counts.retransmits,
                jitter: stream.meter.as_ref().and_then(|meter| meter.jitter()).unwrap_or(0.0),
                errors: Some(counts.lost.unwrap_or(0)),
                packets: Some(if self.plan.udp { counts.packets } else { 0 }),
                end_time: (ended - zero) as f64 / 1e9,
                ..StreamResult::default()
            }
        };
        let ours = Results {
            sender_has_retransmits: (self.plan.receives > 0).then_some(u64::from(!self.plan.udp)),
            streams: streams.iter().map(result).collect(),
            ..Results::default()
        };
        self.control.write_all(&frame(&ours))?;
        let server = self.read_results()?;
        let of = |id| server.streams.iter().find(|each: &&StreamResult| each.id == id);
        // Data in transit at the end of the test is not lost.
        for stream in streams.iter_mut().filter(|stream| stream.meter.is_some()) {
            while stream.run(room, monotonic()).0 > 0 {}
        }
        mark(streams, (marked - zero, ended.max(marked + 1) - zero), Some(&server));
        self.await_state(State::DisplayResults, MESSAGE_TIMEOUT)?;
        self.control.write_all(&[State::Done.byte()])?;
        let streams = streams.iter_mut().map(|stream| {
            let told = of(stream.id);
            let sent = told.and_then(|told| told.packets).filter(|_| self.plan.udp);
            let counts = stream.counts(sent);
            let arrived = stream.meter.as_ref().map(|meter| meter.arrived().counts().collect());
            StreamOutcome {
                sent: stream.sends,
                counts,
                intervals: stream.intervals(counts.lost),
                arrived,
                server: told.cloned(),
            }
        });
        Ok(Outcome { start: zero, streams: streams.collect(), server: server.clone() })
    }

    fn read_results(&mut self) -> Result<Results, ClientError> {
        self.control.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
        let mut length = [0; 4];
        self.control.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_RESULTS {
            return Err(ClientError::Protocol(format!("results of {length} bytes")));
        }
        let mut text = vec![0; length];
        self.control.read_exact(&mut text)?;
        serde_json::from_slice(&text).map_err(|error| ClientError::Protocol(error.to_string()))
    }
}

fn usual(stream: &Stream, udp: bool) -> Interest {
    match (stream.sends, udp) {
        (true, false) => Interest::Writable,
        (true, true) => Interest::Errors,
        (false, _) => Interest::Readable,
    }
}

fn mark(streams: &mut [Stream], stretch: (Nanos, Nanos), server: Option<&Results>) {
    for stream in streams {
        let told = server.and_then(|all| all.streams.iter().find(|each| each.id == stream.id));
        let sent = told.and_then(|told| told.packets).filter(|_| stream.meter.is_some());
        stream.mark(stretch, sent);
    }
}

fn wait(socket: &Socket, interest: Interest, deadline: Nanos) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add(socket.as_fd(), 0, interest)?;
    match epoll.wait(&mut [Event { events: 0, u64: 0 }], deadline)? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

//! The client: one test against a server of iperf3.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
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
/// Longest attempt to connect, and longest wait, before a look at whether to stop.
const SLICE: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(50);
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
    /// A test that its caller ended.
    #[error("the test was ended")]
    Ended,
    /// Parameters that iperf3 does not support.
    #[error("iperf3 does not support this test: {0}")]
    Parameters(String),
}

impl ClientError {
    /// Returns whether the next attempt may succeed. A server of iperf3 does not listen for a
    /// moment after each test.
    pub(crate) fn may_pass(&self) -> bool {
        let resets = |error: &io::Error| {
            matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
        };
        match self {
            Self::Busy | Self::Lost(_) => true,
            Self::Unreachable(_, error) => resets(error),
            _ => false,
        }
    }
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
    let never = AtomicBool::new(false);
    let mut client = Client::connect(server, parameters, &never)?;
    if let Some(start) = start {
        sleep_until(start);
    }
    let mut streams = client.open(0)?;
    let zero = client.begin()?;
    let end = zero + client.plan.duration.as_nanos() as Nanos;
    let asked = client.plan.by_volume.then_some(client.plan.asked);
    let mut seconds = Seconds { zero, marked: zero, asked };
    let mut room = Room::new(&Allowance::default());
    let ended = client.run(&mut streams, &mut room, (zero, end), &mut seconds)?;
    let server = client.finish(&mut streams, &mut room, (zero, ended))?;
    let marked = seconds.marked;
    mark(&mut streams, (marked - zero, ended.max(marked + 1) - zero), Some(&server));
    let udp = client.plan.udp;
    let streams = streams.iter_mut().map(|stream| {
        let told = server.of(stream.id);
        let sent = told.and_then(|told| told.packets).filter(|_| udp);
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

/// Observer of a test while it runs.
pub(crate) trait Watch {
    /// Returns the instant of the next look, by the monotonic clock.
    fn next(&self) -> Nanos;

    /// Looks at the streams, which have carried `carried` bytes. Returns whether the test is over.
    fn look(&mut self, streams: &mut [Stream], carried: u64, now: Nanos) -> bool;
}

/// Marks intervals of a second.
struct Seconds {
    zero: Nanos,
    marked: Nanos,
    /// Bytes that end the test.
    asked: Option<u64>,
}

impl Watch for Seconds {
    fn next(&self) -> Nanos {
        self.marked + SECOND
    }

    fn look(&mut self, streams: &mut [Stream], carried: u64, now: Nanos) -> bool {
        while now >= self.marked + SECOND {
            let from = self.marked - self.zero;
            mark(streams, (from, from + SECOND), None);
            self.marked += SECOND;
        }
        self.asked.is_some_and(|asked| carried >= asked)
    }
}

/// Returns 36 random letters and digits, and a NUL.
fn cookie() -> io::Result<Cookie> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie =
        random_bytes::<{ size_of::<Cookie>() }>()?.map(|byte| LETTERS[usize::from(byte % 32)]);
    cookie[36] = 0;
    Ok(cookie)
}

/// A client of one test.
pub(crate) struct Client<'a> {
    control: TcpStream,
    /// Shortest time to an answer of the server so far, in nanoseconds.
    pub round_trip: Nanos,
    server: SocketAddr,
    cookie: Cookie,
    parameters: &'a Parameters,
    pub plan: Plan,
    /// True to end the test early.
    stop: &'a AtomicBool,
}

impl<'a> Client<'a> {
    /// Connects to a server, and tells it the parameters. A host that is no server of iperf3 is
    /// sent a cookie of 37 bytes, and nothing else.
    pub fn connect(
        server: SocketAddr,
        parameters: &'a Parameters,
        stop: &'a AtomicBool,
    ) -> Result<Self, ClientError> {
        let day = Duration::from_secs(86_400);
        let limits = Limits { duration: day, ..Limits::default() };
        let plan =
            limits.admit(parameters).map_err(|why| ClientError::Parameters(why.to_string()))?;
        let deadline = monotonic() + MESSAGE_TIMEOUT.as_nanos() as Nanos;
        let (control, round_trip) = loop {
            let began = monotonic();
            match TcpStream::connect_timeout(&server, SLICE) {
                Ok(control) => break (control, monotonic() - began),
                Err(error) if error.kind() == ErrorKind::TimedOut && monotonic() < deadline => {}
                Err(error) => return Err(ClientError::Unreachable(server, error)),
            }
            if stop.load(Ordering::Relaxed) {
                return Err(ClientError::Ended);
            }
        };
        control.set_nodelay(true)?;
        control.set_read_timeout(Some(NAP))?;
        let cookie = cookie()?;
        let mut client = Self { control, round_trip, server, cookie, parameters, plan, stop };
        client.ask(&cookie, State::ParameterExchange)?;
        client.ask(&frame(parameters), State::CreateStreams)?;
        Ok(client)
    }

    /// Sends a message, and waits for the state with which the server answers.
    fn ask(&mut self, message: &[u8], answer: State) -> Result<(), ClientError> {
        let asked = monotonic();
        self.say(message)?;
        self.await_state(answer, MESSAGE_TIMEOUT)?;
        self.round_trip = self.round_trip.min(monotonic() - asked);
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        if self.is_stopped() {
            return Err(ClientError::Ended);
        }
        Ok(self.control.write_all(bytes)?)
    }

    /// Reads from the control connection until the buffer is full.
    fn read(&mut self, mut buffer: &mut [u8], timeout: Duration) -> Result<(), ClientError> {
        let deadline = monotonic() + timeout.as_nanos() as Nanos;
        while !buffer.is_empty() {
            if self.is_stopped() {
                return Err(ClientError::Ended);
            }
            match self.control.read(buffer) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if is_temporary(&error) && monotonic() < deadline => {}
                Err(error) if is_temporary(&error) => {
                    return Err(io::Error::from(ErrorKind::TimedOut).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn await_state(&mut self, expected: State, timeout: Duration) -> Result<(), ClientError> {
        let mut byte = [0];
        self.read(&mut byte, timeout)?;
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
                match self.read(&mut code, MESSAGE_TIMEOUT) {
                    Ok(()) => ClientError::Refused(i32::from_be_bytes([
                        code[0], code[1], code[2], code[3],
                    ])),
                    Err(error) => error,
                }
            }
            _ => ClientError::Protocol(format!("unexpected state {}", byte as i8)),
        }
    }

    /// Opens the streams; the last one not before `last` of the monotonic clock. A server that
    /// sends begins when it has all streams.
    pub fn open(&mut self, last: Nanos) -> Result<Vec<Stream>, ClientError> {
        // The server creates the streams that it receives first.
        let (server, parameters) = (self.server, self.parameters);
        let mut streams = Vec::new();
        for place in 0..self.plan.streams() {
            if place + 1 == self.plan.streams() {
                self.sleep(last)?;
            }
            let plan = &self.plan;
            let socket = if plan.udp { self.begin_datagrams()? } else { self.dial()? };
            setup::prepare(&socket, server, plan, parameters);
            let udp = plan.udp.then_some(plan.wide);
            let sends = place < plan.receives;
            streams.push(Stream::new(stream_id(place), sends, (socket, server), udp));
        }
        Ok(streams)
    }

    /// Waits until the monotonic clock shows `until`, or the test is stopped.
    pub fn sleep(&self, until: Nanos) -> Result<(), ClientError> {
        while monotonic() < until {
            if self.is_stopped() {
                return Err(ClientError::Ended);
            }
            sleep_until(until.min(monotonic() + NAP.as_nanos() as Nanos));
        }
        Ok(())
    }

    /// Waits until the server has begun the test. Returns the time.
    pub fn begin(&mut self) -> Result<Nanos, ClientError> {
        self.await_state(State::TestStart, MESSAGE_TIMEOUT)?;
        self.await_state(State::TestRunning, MESSAGE_TIMEOUT)?;
        Ok(monotonic())
    }

    fn dial(&self) -> Result<Socket, ClientError> {
        let unreachable = |error| ClientError::Unreachable(self.server, error);
        let socket = Socket::like(self.server, libc::SOCK_STREAM, 0)?;
        if let Some(mss) = self.parameters.mss.and_then(|mss| libc::c_int::try_from(mss).ok()) {
            socket.set((libc::IPPROTO_TCP, libc::TCP_MAXSEG), mss)?;
        }
        socket.connect(self.server).map_err(unreachable)?;
        self.wait(&socket, Interest::Writable)?;
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
        self.wait(&socket, Interest::Readable)?;
        let mut answer = [0; 4];
        socket.read(&mut answer)?;
        Ok(socket)
    }

    fn wait(&self, socket: &Socket, interest: Interest) -> Result<(), ClientError> {
        let epoll = Epoll::new()?;
        epoll.add(socket.as_fd(), 0, interest)?;
        let deadline = monotonic() + MESSAGE_TIMEOUT.as_nanos() as Nanos;
        loop {
            if self.is_stopped() {
                return Err(ClientError::Ended);
            }
            let now = monotonic();
            let until = deadline.min(now + NAP.as_nanos() as Nanos);
            match epoll.wait(&mut [Event { events: 0, u64: 0 }], until)? {
                0 if now >= deadline => return Err(io::Error::from(ErrorKind::TimedOut).into()),
                0 => {}
                _ => return Ok(()),
            }
        }
    }

    /// Carries data between two instants of the monotonic clock. Returns when it has ended.
    pub fn run(
        &mut self,
        streams: &mut [Stream],
        room: &mut Room,
        (zero, end): (Nanos, Nanos),
        watch: &mut impl Watch,
    ) -> Result<Nanos, ClientError> {
        let epoll = Epoll::new()?;
        epoll.add(self.control.as_fd(), 0, Interest::Readable)?;
        let (rate, length) = (self.plan.rate, self.plan.length);
        let mut due = Vec::new();
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.begin((rate, length), zero);
            let interest = usual(stream, self.plan.udp);
            epoll.add(stream.as_fd(), number as u64 + 1, interest)?;
            due.push(if self.plan.udp && stream.sends { zero } else { Nanos::MAX });
        }
        let mut carried = 0;
        let mut ready = [Event { events: 0, u64: 0 }; 64];
        loop {
            let now = monotonic();
            if self.is_stopped() {
                return Err(ClientError::Ended);
            }
            let over = watch.look(streams, carried, now);
            if now >= end || over {
                return Ok(now);
            }
            let next = due.iter().copied().min().unwrap_or(Nanos::MAX);
            let nap = now + NAP.as_nanos() as Nanos;
            let wake = next.min(end).min(watch.next()).min(nap);
            let count = epoll.wait(&mut ready, wake)?;
            let now = monotonic();
            for event in &ready[..count] {
                match event.u64.checked_sub(1) {
                    Some(number) => due[number as usize] = 0,
                    None => {
                        let mut byte = [0];
                        self.read(&mut byte, MESSAGE_TIMEOUT)?;
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
                let (bytes, again) = stream.run(room, now);
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
    }

    /// Ends the test, and exchanges results with the server. Returns its results.
    pub fn finish(
        &mut self,
        streams: &mut [Stream],
        room: &mut Room,
        (zero, ended): (Nanos, Nanos),
    ) -> Result<Results, ClientError> {
        self.say(&[State::TestEnd.byte()])?;
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
                end_time: ended.saturating_sub(zero) as f64 / 1e9,
                ..StreamResult::default()
            }
        };
        let ours = Results {
            sender_has_retransmits: (self.plan.receives > 0).then_some(u64::from(!self.plan.udp)),
            streams: streams.iter().map(result).collect(),
            ..Results::default()
        };
        self.say(&frame(&ours))?;
        let server = self.read_results()?;
        // Data in transit at the end of the test is not lost.
        for stream in streams.iter_mut().filter(|stream| stream.meter.is_some()) {
            while stream.run(room, monotonic()).0 > 0 {}
        }
        self.await_state(State::DisplayResults, MESSAGE_TIMEOUT)?;
        self.say(&[State::Done.byte()])?;
        Ok(server)
    }

    fn read_results(&mut self) -> Result<Results, ClientError> {
        let mut length = [0; 4];
        self.read(&mut length, MESSAGE_TIMEOUT)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_RESULTS {
            return Err(ClientError::Protocol(format!("results of {length} bytes")));
        }
        let mut text = vec![0; length];
        self.read(&mut text, MESSAGE_TIMEOUT)?;
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
        let told = server.and_then(|all| all.of(stream.id));
        let sent = told.and_then(|told| told.packets).filter(|_| stream.meter.is_some());
        stream.mark(stretch, sent);
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

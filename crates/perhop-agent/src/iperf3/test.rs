//! A test of a client, which has its own thread.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use perhop_socket::{Epoll, Event as Ready, Interest, Nanos, Socket, monotonic};

use super::control::{Control, Event, Expected};
use super::limits::{Plan, Refusal};
use super::message::{Parameters, Results, State, StreamResult, frame, server_error, stream_id};
use super::observer::Observer;
use super::output;
use super::record::{FORMAT, Record, StreamRecord};
use super::server::{Handle, Shared};
use super::setup;
use super::stream::{Room, Stream};

const SECOND: Nanos = 1_000_000_000;
/// Time limit of the client's next message and of its streams, in nanoseconds.
const MESSAGE_TIMEOUT: Nanos = 10 * SECOND;
/// Time after its duration for which a test may continue, as with iperf3's own server.
const GRACE: Nanos = 5 * SECOND;
/// Silence after which data in transit at the end of the test counts as lost, in nanoseconds.
const QUIET: Nanos = 20_000_000;
const MAX_DRAIN: Nanos = SECOND;
/// Maximum number of intervals of a record.
const MAX_INTERVALS: u64 = 600;
/// Interval at which a waiting thread checks whether the server stops, in nanoseconds.
const CHECK_INTERVAL: Nanos = 200_000_000;

// Tokens of the epoll set; those of streams follow.
const CONTROL: u64 = 0;
const WAKE: u64 = 1;
const OBSERVER: u64 = 2;
const STREAMS: u64 = 3;

/// Reason for the end of a test.
#[derive(Debug)]
enum End {
    Refused(Refusal),
    /// The client ended the test, or its connection was lost.
    Disconnected(&'static str),
    Stopped,
}

/// Its client has sent that it is done, before the end of the test.
const GAVE_UP: &str = "the client gave up the test";

/// A client's control connection.
pub(crate) struct Caller {
    pub socket: Socket,
    pub client: SocketAddr,
    pub server: SocketAddr,
}

pub(crate) struct Test<'a> {
    shared: &'a Shared,
    handle: &'a Handle,
    caller: Caller,
    control: Control,
    epoll: Epoll,
    streams: Vec<Stream>,
    room: Room,
    /// Observer of received TCP packets, if the process has the right.
    observer: Option<Observer>,
    /// Number of bytes that the test has carried.
    carried: u64,
}

/// Runs a test and writes its record.
pub(crate) fn run(shared: &Shared, handle: &Handle, caller: Caller) {
    let Ok(epoll) = Epoll::new() else { return };
    let mut test = Test {
        shared,
        handle,
        caller,
        control: Control::new(),
        epoll,
        streams: Vec::new(),
        room: Room::new(&shared.settings.allowance),
        observer: None,
        carried: 0,
    };
    let ended = test.execute();
    if let Err(End::Refused(refusal)) = ended {
        test.send(&server_error(refusal as i32, 0));
    }
    if let Err(End::Stopped) = ended {
        test.send(&[State::ServerTerminate.byte()]);
    }
}

impl Test<'_> {
    fn execute(&mut self) -> Result<(), End> {
        let add = |fd, token| self.epoll.add(fd, token, Interest::Readable);
        let watched = add(self.caller.socket.as_fd(), CONTROL)
            .and_then(|()| add(self.handle.wake.as_fd(), WAKE));
        watched.map_err(|_| End::Refused(Refusal::Socket))?;
        setup::keep_alive(&self.caller.socket);
        self.send(&[State::ParameterExchange.byte()]);
        let parameters = match self.wait_message(monotonic() + MESSAGE_TIMEOUT)? {
            Event::Parameters(parameters) => *parameters,
            _ => return Err(End::Refused(Refusal::Message)),
        };
        let plan = self.shared.settings.limits.admit(&parameters).map_err(End::Refused)?;
        self.make_streams(&plan, &parameters)?;
        if !plan.udp && self.streams.iter().any(|stream| !stream.sends) {
            self.observer = Observer::open(&self.streams, plan.tos);
        }
        if let Some(observer) = &self.observer {
            let added = self.epoll.add(observer.socket.as_fd(), OBSERVER, Interest::Readable);
            added.map_err(|_| End::Refused(Refusal::Socket))?;
        }
        self.send(&[State::TestStart.byte(), State::TestRunning.byte()]);
        self.control.expected = Expected::End;
        let mut run = Run::new(&plan);
        let carried = self.carry(&plan, &mut run);
        let closed = !plan.udp && self.streams.iter().any(|stream| !stream.open);
        let ended = match carried.and_then(|()| self.finish(&plan, &parameters, &mut run)) {
            Ok(()) | Err(End::Disconnected(GAVE_UP)) if closed => {
                Err(End::Disconnected("a data connection closed during the test"))
            }
            ended => ended,
        };
        self.record(&plan, parameters, run, &ended);
        ended
    }

    /// Waits for the client's next message.
    fn wait_message(&mut self, deadline: Nanos) -> Result<Event, End> {
        let mut ready = [Ready { events: 0, u64: 0 }; 8];
        loop {
            if let Some(event) = self.next_message()? {
                return Ok(event);
            }
            let now = monotonic();
            if now > deadline {
                return Err(End::Disconnected("the client sent no message in time"));
            }
            let count = self.wait(&mut ready, deadline.min(now + CHECK_INTERVAL))?;
            if ready[..count].iter().any(|each| each.u64 == CONTROL) {
                self.read_control()?;
            }
        }
    }

    fn wait(&self, ready: &mut [Ready], until: Nanos) -> Result<usize, End> {
        if self.shared.stops() {
            return Err(End::Stopped);
        }
        self.epoll.wait(ready, until).map_err(|_| End::Refused(Refusal::Socket))
    }

    fn next_message(&mut self) -> Result<Option<Event>, End> {
        let expected = self.control.expected;
        match self.control.next() {
            Ok(Some(Event::Terminated)) => Err(End::Disconnected("the client terminated the test")),
            Ok(event) => Ok(event),
            Err(_) => Err(End::Refused(match expected {
                Expected::Parameters => Refusal::Parameters,
                Expected::Results => Refusal::Results,
                _ => Refusal::Message,
            })),
        }
    }

    fn read_control(&mut self) -> Result<(), End> {
        let mut bytes = [0; 4096];
        match self.caller.socket.read(&mut bytes) {
            Ok(0) => Err(End::Disconnected("the client closed its control connection")),
            Ok(count) => {
                let pushed = self.control.push(&bytes[..count]);
                pushed.map_err(|_| End::Refused(Refusal::Message))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(End::Disconnected("the control connection was lost")),
        }
    }

    /// Sends a message without blocking: messages are short, and a client that does not read loses
    /// the rest.
    fn send(&self, bytes: &[u8]) {
        let (mut rest, patience) = (bytes, monotonic() + SECOND);
        while !rest.is_empty() && monotonic() < patience {
            match self.caller.socket.send(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Err(_) => return,
            }
        }
    }

    /// Lets the client create its streams.
    fn make_streams(&mut self, plan: &Plan, asked: &Parameters) -> Result<(), End> {
        // The first datagram of a stream identifies the client only by its address. Therefore
        // clients of one address create streams of UDP one after another.
        let _turn = plan.udp.then(|| self.shared.queue(self.handle));
        let mut deadline = monotonic() + MESSAGE_TIMEOUT;
        let (mut began, mut arrivals) = (false, Vec::new());
        let mut ready = [Ready { events: 0, u64: 0 }; 8];
        while arrivals.len() < plan.streams() {
            let now = monotonic();
            if !began && (!plan.udp || self.shared.is_first_in_queue(self.handle)) {
                began = true;
                deadline = now + MESSAGE_TIMEOUT;
                self.handle.expect(plan.streams(), plan.udp);
                self.send(&[State::CreateStreams.byte()]);
            } else if !began {
                // The sum of the time limits of the tests before it.
                deadline = deadline.max(now + MESSAGE_TIMEOUT);
            }
            if now > deadline {
                return Err(End::Refused(Refusal::Creation));
            }
            let count = self.wait(&mut ready, deadline.min(now + CHECK_INTERVAL))?;
            for event in &ready[..count] {
                match event.u64 {
                    CONTROL => self.read_control()?,
                    _ => self.handle.clear_wake(),
                }
            }
            match self.next_message()? {
                None => {}
                Some(Event::Done) => {
                    return Err(End::Disconnected("the client gave up creating its streams"));
                }
                Some(_) => return Err(End::Refused(Refusal::Message)),
            }
            arrivals.extend(self.handle.take());
        }
        // In the order in which the client created them.
        arrivals.sort_by_key(|arrival| arrival.serial);
        for (place, arrival) in arrivals.into_iter().take(plan.streams()).enumerate() {
            let ends = (arrival.socket, arrival.peer);
            let udp = plan.udp.then_some(plan.wide);
            let stream = Stream::new(stream_id(place), place >= plan.receives, ends, udp);
            setup::prepare(&stream.socket, arrival.peer, plan, asked);
            self.streams.push(stream);
        }
        Ok(())
    }

    /// Carries data until the client ends the test.
    fn carry(&mut self, plan: &Plan, run: &mut Run) -> Result<(), End> {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.begin((plan.rate, plan.length), run.zero);
            let interest = match (stream.sends, plan.udp) {
                (true, false) => Interest::Writable,
                (true, true) => Interest::Errors,
                (false, _) => Interest::Readable,
            };
            self.epoll
                .add(stream.as_fd(), STREAMS + number as u64, interest)
                .map_err(|_| End::Refused(Refusal::Socket))?;
        }
        let deadline = run.zero + plan.duration.as_nanos() as Nanos + GRACE;
        let mut due: Vec<Nanos> = self
            .streams
            .iter()
            .map(|stream| if plan.udp && stream.sends { run.zero } else { Nanos::MAX })
            .collect();
        let mut ready = vec![Ready { events: 0, u64: 0 }; 64];
        loop {
            let now = monotonic();
            while now >= run.next_mark {
                let at = run.next_mark;
                self.mark(run, at, None);
            }
            if now > deadline {
                return Err(End::Refused(Refusal::Duration));
            }
            if self.carried > plan.volume {
                return Err(End::Refused(Refusal::Rate));
            }
            let next = due.iter().copied().min().unwrap_or(Nanos::MAX);
            let until = next.min(run.next_mark).min(deadline).min(now + CHECK_INTERVAL);
            let count = self.wait(&mut ready, until)?;
            for event in &ready[..count] {
                match event.u64 {
                    CONTROL => {
                        self.read_control()?;
                        while let Some(event) = self.next_message()? {
                            match event {
                                Event::End => return Ok(()),
                                Event::Done => return Err(End::Disconnected(GAVE_UP)),
                                _ => {}
                            }
                        }
                    }
                    WAKE => self.handle.clear_wake(),
                    OBSERVER => self.observe(),
                    token => self.serve((token - STREAMS) as usize, plan, &mut due)?,
                }
            }
            let now = monotonic();
            for number in 0..due.len() {
                if due[number] <= now {
                    due[number] = Nanos::MAX;
                    self.serve(number, plan, &mut due)?;
                }
            }
        }
    }

    /// Counts the received TCP packets whose DSCP or ECN field is not the announced one.
    fn observe(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer.read(&self.streams);
        }
    }

    /// Carries data of a stream without blocking.
    fn serve(&mut self, number: usize, plan: &Plan, due: &mut [Nanos]) -> Result<(), End> {
        let Some(stream) = self.streams.get_mut(number).filter(|stream| stream.open) else {
            return Ok(());
        };
        let (bytes, again) = stream.run(&mut self.room, monotonic());
        self.carried += bytes;
        let failed = |_| End::Refused(Refusal::Socket);
        if !stream.open {
            due[number] = Nanos::MAX;
            return self.epoll.remove(stream.as_fd()).map_err(failed);
        }
        if self.room.is_spent() {
            return Err(End::Refused(Refusal::Rate));
        }
        if plan.udp {
            if stream.sends {
                let _ = stream.socket.take_error();
                due[number] = again.unwrap_or(Nanos::MAX);
            } else if let Some(rate) = self.shared.settings.limits.rate {
                // The client has announced a lower rate.
                let elapsed = stream.last.saturating_sub(stream.pace.start()) + SECOND;
                let most = u128::from(rate) * u128::from(elapsed) / 8 / u128::from(SECOND);
                if u128::from(stream.carried()) > most {
                    return Err(End::Refused(Refusal::Rate));
                }
            }
            return Ok(());
        }
        // Paced TCP streams leave the epoll set until they are due.
        let usual = if stream.sends { Interest::Writable } else { Interest::Readable };
        due[number] = again.unwrap_or(Nanos::MAX);
        if again.is_some() != stream.held {
            stream.held = again.is_some();
            let interest = if stream.held { Interest::Errors } else { usual };
            let token = STREAMS + number as u64;
            return self.epoll.change(stream.as_fd(), token, interest).map_err(failed);
        }
        Ok(())
    }

    fn mark(&mut self, run: &mut Run, now: Nanos, sent: Option<&Results>) {
        let stretch = (run.marked - run.zero, now - run.zero);
        if stretch.0 < stretch.1 {
            for stream in &mut self.streams {
                let sent = sent.and_then(|results| result_of(results, stream.id)?.packets);
                stream.mark(stretch, sent);
            }
        }
        run.marked = now;
        run.next_mark = now + run.interval;
        if run.omitted.is_none() && now - run.zero >= run.omit {
            let counted = self.streams.iter().map(|stream| stream.counts(None)).collect();
            run.omitted = Some(counted);
            run.usage = usage();
            run.measured = now;
        } else if run.omitted.is_none() {
            run.next_mark = run.next_mark.min(run.zero + run.omit);
        }
    }

    /// Exchanges results after the client has ended the test.
    fn finish(&mut self, plan: &Plan, asked: &Parameters, run: &mut Run) -> Result<(), End> {
        let ended = monotonic();
        run.ended = ended;
        let cpu = run.cpu(ended);
        self.streams.iter_mut().filter(|stream| stream.sends).for_each(Stream::end);
        for stream in self.streams.iter_mut().filter(|stream| !stream.sends && stream.open) {
            // Read the data that had arrived when the test ended; a paced stream has not read all.
            while stream.run(&mut self.room, monotonic()).0 > 0 && monotonic() < ended + QUIET {}
        }
        self.send(&[State::ExchangeResults.byte()]);
        let results = match self.wait_message(monotonic() + MESSAGE_TIMEOUT)? {
            Event::Results(results) => results,
            _ => return Err(End::Refused(Refusal::Message)),
        };
        self.drain(plan, &results);
        let last = self.streams.iter().filter(|stream| !stream.sends).map(|stream| stream.last);
        run.ended = last.max().unwrap_or(0).max(ended);
        let at = run.ended;
        self.streams.iter_mut().for_each(Stream::keep_counts);
        self.mark(run, at, Some(&results));
        let ours = self.results(plan, asked, run, cpu, &results);
        self.send(&frame(&ours));
        run.client = Some(results);
        self.send(&[State::DisplayResults.byte()]);
        match self.wait_message(monotonic() + MESSAGE_TIMEOUT) {
            Err(End::Disconnected(_)) | Ok(Event::Done) => Ok(()),
            Ok(_) => Err(End::Refused(Refusal::Message)),
            Err(end) => Err(end),
        }
    }

    /// Receives data that was in transit when the test ended: for UDP, so that late datagrams do
    /// not count as lost; for TCP if the client sent a volume, because the time of its arrival is
    /// the result.
    fn drain(&mut self, plan: &Plan, results: &Results) {
        if !(plan.udp || plan.by_volume) {
            return;
        }
        let deadline = monotonic() + MAX_DRAIN;
        let missing = |stream: &Stream| {
            let Some(theirs) = result_of(results, stream.id) else { return false };
            let counts = stream.counts(theirs.packets);
            if plan.udp {
                return counts.lost != Some(0);
            }
            plan.omit.is_zero() && theirs.bytes.is_some_and(|bytes| counts.bytes < bytes)
        };
        let mut quiet_since = monotonic();
        loop {
            let mut waiting = false;
            for stream in self.streams.iter_mut().filter(|stream| !stream.sends && stream.open) {
                if missing(stream) {
                    waiting = true;
                    if stream.run(&mut self.room, monotonic()).0 > 0 {
                        quiet_since = monotonic();
                    }
                }
            }
            let now = monotonic();
            let quiet = if plan.udp { QUIET } else { MAX_DRAIN };
            if !waiting || now > deadline || now > quiet_since + quiet {
                return;
            }
            std::thread::sleep(std::time::Duration::from_micros(500));
        }
    }

    /// Returns the results for the client.
    fn results(
        &self,
        plan: &Plan,
        asked: &Parameters,
        run: &Run,
        cpu: [f64; 3],
        theirs: &Results,
    ) -> Results {
        let seconds = run.ended.saturating_sub(run.measured) as f64 / 1e9;
        let streams = self.streams.iter().enumerate();
        let streams = streams.map(|(number, stream)| {
            let told = result_of(theirs, stream.id);
            let sent = told.and_then(|told| told.packets);
            let (now, omitted) = (stream.counts(sent), run.omitted_of(number));
            let packets = match (plan.udp, stream.sends) {
                (false, _) => 0,
                (true, true) => now.packets,
                (true, false) => sent.unwrap_or_else(|| highest(stream)),
            };
            // Clients since 3.13 subtract the omitted time themselves.
            let subtracts = told.is_some_and(|told| told.omitted_packets.is_some());
            let lost = now.lost.unwrap_or(0);
            let lost_before = omitted.lost.unwrap_or(0).min(lost);
            StreamResult {
                id: stream.id,
                bytes: Some(now.bytes - omitted.bytes),
                retransmits: now
                    .retransmits
                    .map(|all| all.saturating_sub(omitted.retransmits.unwrap_or(0))),
                jitter: stream.meter.as_ref().and_then(|meter| meter.jitter()).unwrap_or(0.0),
                errors: Some(if subtracts { lost } else { lost - lost_before }),
                omitted_errors: subtracts.then_some(lost_before),
                packets: Some(packets),
                omitted_packets: told.and_then(|told| told.omitted_packets),
                start_time: 0.0,
                end_time: seconds,
            }
        });
        let [total, user, system] = cpu;
        let streams: Vec<StreamResult> = streams.collect();
        Results {
            cpu_util_total: total,
            cpu_util_user: user,
            cpu_util_system: system,
            sender_has_retransmits: (plan.sends > 0).then_some(u64::from(!plan.udp)),
            congestion_used: (!plan.udp)
                .then(|| self.streams.first().and_then(|stream| setup::congestion(&stream.socket)))
                .flatten(),
            server_output_text: asked
                .get_server_output
                .then(|| output::text(self.caller.client, &self.streams, &streams)),
            streams,
        }
    }

    fn record(&mut self, plan: &Plan, asked: Parameters, mut run: Run, end: &Result<(), End>) {
        if run.ended == 0 {
            run.ended = monotonic();
        }
        self.observe();
        let theirs = run.client.take();
        self.streams.iter_mut().for_each(Stream::keep_counts);
        if run.marked < run.ended {
            let ended = run.ended;
            self.mark(&mut run, ended, theirs.as_ref());
        }
        let (ended, complete) = match end {
            Ok(()) => ("by the client".to_owned(), true),
            Err(End::Refused(refusal)) => (refusal.to_string(), false),
            Err(End::Disconnected(how)) => ((*how).to_owned(), false),
            Err(End::Stopped) => ("the server stopped".to_owned(), false),
        };
        let same_clock = self.shared.settings.same_clock
            || self.caller.client.ip() == self.caller.server.ip()
            || self.caller.client.ip().is_loopback();
        let streams = self.streams.iter_mut().map(|stream| {
            let client_result =
                theirs.as_ref().and_then(|each| result_of(each, stream.id)).cloned();
            let sent = client_result.as_ref().and_then(|each| each.packets);
            let total = stream.counts(sent);
            let intervals = stream.intervals(total.lost);
            let meter = stream.meter.as_ref();
            let observed = self.observer.as_ref().filter(|_| !stream.sends);
            let observed = observed.and_then(|observer| observer.arrived(stream));
            let arrived = meter.map(|meter| meter.arrived()).or(observed.as_ref());
            let arrived = arrived.map(|arrived| {
                let counts = arrived.counts();
                counts.map(|(class, packets)| (class.dscp().get(), class.ecn() as u8, packets))
            });
            StreamRecord {
                id: stream.id,
                received: !stream.sends,
                client: stream.peer.to_string(),
                dscp_sent: plan.tos >> 2,
                arrived: arrived.map(Iterator::collect),
                total,
                malformed: meter.map(|meter| meter.malformed),
                delay_minimum_s: meter
                    .and_then(|meter| meter.least())
                    .filter(|_| same_clock)
                    .map(|nanos| nanos as f64 / 1e9),
                intervals,
                client_result,
            }
        });
        let record = Record {
            format: FORMAT,
            perhop: env!("CARGO_PKG_VERSION"),
            started_unix_ms: run.started_unix_ms,
            client: self.caller.client.to_string(),
            server: self.caller.server.to_string(),
            parameters: asked,
            length: plan.length,
            ended,
            complete,
            omitted_s: plan.omit.as_secs_f64(),
            duration_s: (run.ended - run.zero) as f64 / 1e9,
            same_clock,
            streams: streams.collect(),
        };
        self.shared.record(&record);
    }
}

fn highest(stream: &Stream) -> u64 {
    stream.meter.as_ref().map_or(0, |meter| meter.highest())
}

fn result_of(results: &Results, id: u32) -> Option<&StreamResult> {
    results.streams.iter().find(|each| each.id == id)
}

fn usage() -> Option<Usage> {
    getrusage(UsageWho::RUSAGE_THREAD).ok()
}

/// Progress of a test.
struct Run {
    started_unix_ms: u64,
    zero: Nanos,
    omit: Nanos,
    interval: Nanos,
    marked: Nanos,
    next_mark: Nanos,
    /// Counters at the end of the omitted time, and the instant of that end.
    omitted: Option<Vec<super::record::Counts>>,
    measured: Nanos,
    usage: Option<Usage>,
    ended: Nanos,
    client: Option<Results>,
}

impl Run {
    fn new(plan: &Plan) -> Self {
        let zero = monotonic();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let omit = plan.omit.as_nanos() as Nanos;
        let interval = plan.duration.as_secs().div_ceil(MAX_INTERVALS).max(1) * SECOND;
        let first = if omit == 0 { interval } else { interval.min(omit) };
        Self {
            started_unix_ms: unix.as_millis() as u64,
            zero,
            omit,
            interval,
            marked: zero,
            next_mark: zero + first,
            omitted: (omit == 0).then(Vec::new),
            measured: zero,
            usage: usage(),
            ended: 0,
            client: None,
        }
    }

    fn omitted_of(&self, stream: usize) -> super::record::Counts {
        let counts = self.omitted.as_ref().and_then(|all| all.get(stream));
        counts.copied().unwrap_or_default()
    }

    /// Returns the CPU time since the omitted time as shares of one CPU in percent: in total, in
    /// user mode, in the kernel.
    fn cpu(&self, now: Nanos) -> [f64; 3] {
        let (Some(before), Some(after)) = (&self.usage, usage()) else { return [0.0; 3] };
        let micros =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
        let elapsed = (now - self.measured).max(1) as f64 / 1e3;
        let share = |after, before| (micros(after) - micros(before)) / elapsed * 100.0;
        let user = share(after.user_time(), before.user_time());
        let system = share(after.system_time(), before.system_time());
        [user + system, user, system]
    }
}

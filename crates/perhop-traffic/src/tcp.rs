//! Applications that write to TCP connections: one thread serves them all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::allowance::Grant;
use crate::clock::{nanos, time};
use crate::shared::Shared;
use perhop_socket::{Epoll, Event, Interest, Nanos, Socket};
use perhop_workload::WritesPlan;

/// Minimum limit of unsent bytes in a connection: enough to keep a slow one busy. A fast one holds
/// the bytes that it sends within [`LATENCY`].
pub(crate) const LEAST_UNSENT: u32 = 4 << 10;
const MOST_UNSENT: u64 = 4 << 20;
/// Time in which a connection sends its unsent bytes, so that it stops soon after the end.
const LATENCY: Nanos = 10_000_000;

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

/// Returns the limit of unsent bytes in a connection that delivers `bytes_per_second`.
pub(crate) fn unsent(bytes_per_second: u64) -> u32 {
    let bytes = u128::from(bytes_per_second) * u128::from(LATENCY) / 1_000_000_000;
    bytes.clamp(LEAST_UNSENT.into(), MOST_UNSENT.into()) as u32
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TimerEvent {
    Start,
    Stop,
    /// Instant at which the send budget or the rate of the application allows more.
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    Waiting,
    Connecting,
    Running,
    Ended,
}

struct Application {
    phase: ConnectionPhase,
    start: Nanos,
    /// Writes, if it keeps to a rate.
    writes: Option<WritesPlan>,
    written: u64,
    /// Bytes still to be written.
    left: u64,
}

impl Application {
    /// Returns the bytes that may be written at once; none before the next write is due.
    fn chunk(&self, now: Nanos) -> u64 {
        let most = self.left.min(CHUNK as u64);
        let Some(writes) = self.writes else { return most };
        let due = writes.bytes_due(time(now).since(time(self.start)));
        most.min(due - self.written.min(due))
    }

    /// Returns the instant of the next write.
    fn due(&self) -> Nanos {
        let due = |writes: WritesPlan| time(self.start) + writes.due(self.written);
        self.writes.map_or(self.start, |writes| nanos(due(writes).as_picos()))
    }
}

/// Runs all TCP senders until the end of the run.
pub(crate) fn send(shared: &Shared) -> io::Result<()> {
    // A file with the data, whose pages the kernel sends without copying.
    let mut file = File::from(memfd_create("perhop", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&vec![0; CHUNK])?;
    let epoll = Epoll::new()?;
    let ids: Vec<_> = shared
        .stream_ids()
        .filter(|id| {
            let (flow, stream) = shared.at(*id);
            let other = stream.client.is_some() || stream.quic.is_some();
            !shared.is_udp(id.flow) && flow.here.source && !other
        })
        .collect();
    let mut events = BinaryHeap::new();
    let mut applications = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let flow = &shared.flows[id.flow];
        applications.push(Application {
            phase: ConnectionPhase::Waiting,
            start: flow.starts[id.stream],
            writes: flow.writes,
            written: 0,
            left: flow.volume.unwrap_or(u64::MAX),
        });
        events.push(Reverse((flow.starts[id.stream], TimerEvent::Start, number)));
        if let Some(stop) = flow.stop {
            events.push(Reverse((stop, TimerEvent::Stop, number)));
        }
    }
    let mut ready = vec![Event { events: 0, u64: 0 }; 256];
    shared.clock.await_zero();
    while !shared.clock.is_over() {
        let next = events.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
        let count = epoll.wait(&mut ready, shared.clock.wake(next))?;
        for event in &ready[..count] {
            let number = event.u64 as usize;
            let id = ids[number];
            let (flow, stream) = shared.at(id);
            let Some(sender) = stream.sender.get() else { continue };
            let application = &mut applications[number];
            if application.phase == ConnectionPhase::Connecting {
                if let Some(error) = sender.take_error() {
                    let to = stream.to;
                    shared.warn(format!("{}: cannot connect to {to}: {error}", flow.name));
                    application.phase = ConnectionPhase::Ended;
                    epoll.remove(sender.as_fd())?;
                    continue;
                }
                application.phase = ConnectionPhase::Running;
                stream.open.store(true, Ordering::Relaxed);
            }
            if application.phase == ConnectionPhase::Ended {
                // The other end has closed too, or has given up.
                if let Some(error) = sender.take_error() {
                    shared.warn(format!("{}: the connection was lost: {error}", flow.name));
                }
                epoll.remove(sender.as_fd())?;
                continue;
            }
            let now = shared.clock.now();
            let chunk = application.chunk(now);
            if chunk == 0 && application.left > 0 {
                if let Some(error) = sender.take_error() {
                    shared.warn(format!("{}: the connection was lost: {error}", flow.name));
                    application.phase = ConnectionPhase::Ended;
                    epoll.remove(sender.as_fd())?;
                    continue;
                }
                epoll.change(sender.as_fd(), number as u64, Interest::Errors)?;
                events.push(Reverse((application.due(), TimerEvent::Resume, number)));
                continue;
            }
            let allowed = match shared.budget.take(&shared.clock, now, 1, chunk) {
                Grant::Bytes(bytes) => bytes,
                Grant::Wait(until) => {
                    epoll.change(sender.as_fd(), number as u64, Interest::Errors)?;
                    events.push(Reverse((until, TimerEvent::Resume, number)));
                    continue;
                }
                Grant::Over => {
                    shared.warn(format!(
                        "{}: the sender has reached its limit of bytes or time",
                        flow.name
                    ));
                    end(&epoll, sender, number, application)?;
                    continue;
                }
            };
            let written = write(sender, &file, application, allowed);
            shared.budget.give_back(allowed - written.as_ref().copied().unwrap_or(0));
            if let Err(error) = written {
                shared.warn(format!("{}: the connection was lost: {error}", flow.name));
                application.phase = ConnectionPhase::Ended;
                epoll.remove(sender.as_fd())?;
            } else if application.left == 0 {
                end(&epoll, sender, number, application)?;
            }
        }
        let now = shared.clock.now();
        while let Some(&Reverse((at, what, number))) = events.peek()
            && at <= now
        {
            events.pop();
            let (flow, stream) = shared.at(ids[number]);
            let Some(sender) = stream.sender.get() else { continue };
            let application = &mut applications[number];
            match (what, application.phase) {
                // The proof has connected it.
                (TimerEvent::Start, ConnectionPhase::Waiting) if shared.proof.is_some() => {
                    application.phase = ConnectionPhase::Running;
                    stream.open.store(true, Ordering::Relaxed);
                    epoll.add(sender.as_fd(), number as u64, Interest::Writable)?;
                }
                (TimerEvent::Resume, ConnectionPhase::Running) => {
                    epoll.change(sender.as_fd(), number as u64, Interest::Writable)?;
                }
                (TimerEvent::Start, ConnectionPhase::Waiting) => {
                    application.phase = ConnectionPhase::Connecting;
                    epoll.add(sender.as_fd(), number as u64, Interest::Writable)?;
                    if let Err(error) = sender.connect(stream.to) {
                        let to = stream.to;
                        shared.warn(format!("{}: cannot connect to {to}: {error}", flow.name));
                        application.phase = ConnectionPhase::Ended;
                        epoll.remove(sender.as_fd())?;
                    }
                }
                (TimerEvent::Stop, ConnectionPhase::Running) => {
                    end(&epoll, sender, number, application)?;
                }
                (TimerEvent::Stop, ConnectionPhase::Connecting) => {
                    application.phase = ConnectionPhase::Ended;
                    epoll.remove(sender.as_fd())?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Ends a stream: unsent data is still sent, and then a FIN.
fn end(
    epoll: &Epoll,
    socket: &Socket,
    number: usize,
    application: &mut Application,
) -> io::Result<()> {
    application.phase = ConnectionPhase::Ended;
    socket.end();
    epoll.change(socket.as_fd(), number as u64, Interest::Errors)
}

/// Writes as much as there is room for, and at most `allowed` bytes. Returns the number of bytes.
fn write(
    socket: &Socket,
    file: &File,
    application: &mut Application,
    allowed: u64,
) -> io::Result<u64> {
    match socket.send_file(file.as_fd(), allowed as usize) {
        Ok(written) => {
            let written = written as u64;
            application.written += written;
            if application.left != u64::MAX {
                application.left -= written;
            }
            Ok(written)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}

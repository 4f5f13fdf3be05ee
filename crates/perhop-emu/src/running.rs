//! The loop: a network in real time.
//!
//! A thread sleeps until a host sends data or the network's next event is due. Packets that it
//! reads enter the network at the time of the clock at which they are read. Events are processed
//! with the instants at which they were due, however late the thread wakes up, so that delays do
//! not add up.

use std::array;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use perhop_core::{Duration, NodeId, Time};
use perhop_measure::{Histogram, Marks, NetworkMeter, Stalls};
use perhop_net::Network;
use perhop_plan::{Effect, Timeline};

use crate::clock::Clock;
use crate::hosts::LinuxHosts;
use crate::shaper::HostQueue;
use crate::store::Buffer;

/// Number of times that a host is read before other hosts and due events are served.
const BATCH: usize = 16;
/// Greatest time for which the thread sleeps, in nanoseconds.
const LONGEST_SLEEP: u64 = 1_000_000_000;

/// A request to the loop, served between two iterations.
pub(crate) type Request = Box<dyn FnOnce(&mut Running) + Send>;

/// The network, its hosts, and their measurements.
#[derive(Debug)]
pub(crate) struct Running {
    pub network: Network<Buffer>,
    pub hosts: LinuxHosts,
    /// Queues of hosts that block their senders.
    pub queues: Vec<HostQueue>,
    pub meter: NetworkMeter,
    pub changes: Timeline<Buffer>,
    pub marks: Marks,
    /// Lateness of the thread's wake-ups for events that were due.
    pub lateness: Histogram,
    /// Number and duration of delays beyond the plan's limit.
    pub stalls: Stalls,
    /// True if the thread has real-time priority.
    pub real_time: bool,
    /// Error that has ended the loop.
    pub failure: Option<io::Error>,
}

impl Running {
    /// Processes events up to `now`, and reads counters at marks.
    fn advance(&mut self, now: Time) {
        while let Some(mark) = self.marks.due(now) {
            self.network.run(mark, &mut self.hosts);
            self.record(mark);
            self.change();
        }
        self.network.run(now, &mut self.hosts);
    }

    /// Adds rows to each table for the interval since the last reading.
    pub fn record(&mut self, now: Time) {
        let stretch = self.marks.read(now);
        self.meter.record(&self.network, stretch);
        self.hosts.losses.record(stretch);
    }

    /// Applies the changes that are due.
    pub fn change(&mut self) {
        let now = self.network.now();
        while self.changes.front().is_some_and(|(at, _)| *at <= now) {
            let (_, effect) = self.changes.pop_front().expect("there is one in front");
            self.apply(effect);
        }
    }

    /// Applies a change now.
    pub fn apply(&mut self, effect: Effect<Buffer>) {
        let other_classes = effect.other_classes();
        effect.apply(&mut self.network);
        if let Some(port) = other_classes {
            self.meter.set_queue(&self.network, port);
        }
        self.follow();
    }

    /// Updates the hosts' own queues from their ends of links.
    pub fn follow(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.follow(&self.network));
    }

    /// Returns when the next event or change is due.
    fn deadline(&self) -> Time {
        let mark = self.marks.next().unwrap_or(Time::MAX);
        self.network.next_event().unwrap_or(Time::MAX).min(mark)
    }

    /// Reads data from a host, up to the limit of a turn.
    fn read(&mut self, host: NodeId, clock: Clock) {
        for _ in 0..BATCH {
            self.advance(clock.now());
            match self.hosts.read(host, &mut self.network) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.hosts.remove(host);
                    self.failure.get_or_insert(error);
                    break;
                }
            }
        }
    }
}

/// Above the priority of the threads of sockets, which have the least real-time priority: a network
/// that waited for its hosts would delay all of them.
const PRIORITY: libc::c_int = 2;

/// Gives the calling thread real-time priority (`SCHED_FIFO`) and exact timers. Returns `true` if
/// the user may have this priority: the thread then wakes up within a third of a millisecond on an
/// overloaded machine, otherwise within several milliseconds.
pub(crate) fn take_real_time_priority() -> bool {
    // By default the kernel may add 50 µs to a sleep (PR_SET_TIMERSLACK(2const)).
    let _ = prctl::set_timerslack(1);
    let ahead = libc::sched_param { sched_priority: PRIORITY };
    #[allow(unsafe_code)]
    // SAFETY: the kernel reads a structure that lives until the call returns.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const ahead) };
    answer == 0
}

/// Runs the loop until the sender of requests is dropped.
pub(crate) fn run(
    mut running: Running,
    clock: Clock,
    requests: &Receiver<Request>,
    bell: &EventFd,
    reached: &Arc<AtomicU64>,
) {
    let fds: io::Result<Vec<(NodeId, OwnedFd)>> = running
        .hosts
        .devices()
        .map(|(node, tun)| Ok((node, tun.as_fd().try_clone_to_owned()?)))
        .collect();
    let mut fds = fds.unwrap_or_else(|error| {
        running.failure.get_or_insert(error);
        Vec::new()
    });
    let mut ready = Vec::new();
    loop {
        running.advance(clock.now());
        running.hosts.flush();
        reached.store(running.network.now().as_picos(), Ordering::Relaxed);
        let deadline = running.deadline();
        let sleep = clock.until(deadline).min(LONGEST_SLEEP);
        match wait(&fds, bell, sleep, &mut ready) {
            Ok(number) if sleep > 0 && clock.until(deadline) == 0 => {
                let late = clock.now().since(deadline);
                running.stalls.add(late);
                // A wake-up by a packet that arrived after the deadline does not count.
                if number == 0 {
                    running.lateness.add(late);
                }
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => {
                running.failure.get_or_insert(errno.into());
                fds.clear();
            }
        }
        for host in ready.drain(..) {
            match host {
                Some(host) => running.read(host, clock),
                None => {
                    let _ = bell.read();
                    loop {
                        match requests.try_recv() {
                            Ok(request) => request(&mut running),
                            Err(TryRecvError::Empty) => break,
                            Err(TryRecvError::Disconnected) => return,
                        }
                    }
                }
            }
        }
        if running.failure.is_some() {
            fds.retain(|(host, _)| running.hosts.has_device(*host));
        }
    }
}

/// Sleeps for at most `sleep` nanoseconds; fills `ready` with the hosts that have data, and `None`
/// for a request.
fn wait(
    fds: &[(NodeId, OwnedFd)],
    bell: &EventFd,
    sleep: u64,
    ready: &mut Vec<Option<NodeId>>,
) -> Result<i32, Errno> {
    const FEW: usize = 64;
    let mut few: [_; FEW] = array::from_fn(|_| PollFd::new(bell.as_fd(), PollFlags::POLLIN));
    let mut many;
    let polled: &mut [PollFd<'_>] = if fds.len() < FEW {
        &mut few[..=fds.len()]
    } else {
        many =
            Vec::from_iter((0..=fds.len()).map(|_| PollFd::new(bell.as_fd(), PollFlags::POLLIN)));
        &mut many
    };
    for (place, (_, fd)) in polled[1..].iter_mut().zip(fds) {
        *place = PollFd::new(fd.as_fd(), PollFlags::POLLIN);
    }
    let timeout = TimeSpec::new((sleep / 1_000_000_000) as i64, (sleep % 1_000_000_000) as i64);
    let number = ppoll(polled, Some(timeout), None)?;
    if number > 0 {
        let has = |place: &PollFd<'_>| place.revents().is_none_or(|events| !events.is_empty());
        let hosts = fds.iter().map(|(host, _)| Some(*host));
        let who = std::iter::once(None).chain(hosts);
        ready.extend(polled.iter().zip(who).filter(|(place, _)| has(place)).map(|(_, who)| who));
    }
    Ok(number)
}

/// Returns the upper bound of the bins that together have a share of all counts.
pub(crate) fn quantile(histogram: &Histogram, share: f64) -> Option<Duration> {
    let total: u64 = histogram.bins().map(|(.., count)| count).sum();
    let mut seen = 0;
    let wanted = share * total as f64;
    histogram
        .bins()
        .find(|(.., count)| {
            seen += count;
            seen as f64 >= wanted
        })
        .map(|(_, high, _)| high)
}

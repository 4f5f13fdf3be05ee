//! The loop: a network in real time.
//!
//! A thread sleeps until a host sends something or the network's next event is due. What is read is
//! sent into the network at the instant of the clock at which it is read; events happen at the
//! instants at which they are due, however late the thread wakes for them, so that what is late now
//! makes nothing late that follows.

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

/// How many times a host is read before others have their turn, and what is due is done.
const BATCH: usize = 16;
/// How long the thread sleeps at most.
const LONGEST_SLEEP: u64 = 1_000_000_000;

/// What the loop is asked to do between two turns.
pub(crate) type Request = Box<dyn FnOnce(&mut Running) + Send>;

/// The network, its hosts, and what is measured of them.
#[derive(Debug)]
pub(crate) struct Running {
    pub network: Network<Buffer>,
    pub hosts: LinuxHosts,
    /// The queues of hosts that hold up their senders.
    pub queues: Vec<HostQueue>,
    pub meter: NetworkMeter,
    pub changes: Timeline<Buffer>,
    pub marks: Marks,
    /// How late the thread was when it slept until something was due.
    pub lateness: Histogram,
    /// How often and long it was later than results can bear.
    pub stalls: Stalls,
    /// True if the thread has real-time priority.
    pub real_time: bool,
    /// Why there is no going on.
    pub failure: Option<io::Error>,
}

impl Running {
    /// Lets everything happen up to `now`, reading counters at marks.
    fn advance(&mut self, now: Time) {
        while let Some(mark) = self.marks.due(now) {
            self.network.run(mark, &mut self.hosts);
            self.record(mark);
            self.change();
        }
        self.network.run(now, &mut self.hosts);
    }

    /// Adds a row to each table for what happened since the last one.
    pub fn record(&mut self, now: Time) {
        let stretch = self.marks.read(now);
        self.meter.record(&self.network, stretch);
        self.hosts.losses.record(stretch);
    }

    /// Does what is to change by now.
    pub fn change(&mut self) {
        let now = self.network.now();
        while self.changes.front().is_some_and(|(at, _)| *at <= now) {
            let (_, effect) = self.changes.pop_front().expect("there is one in front");
            self.apply(effect);
        }
    }

    /// Changes something now.
    pub fn apply(&mut self, effect: Effect<Buffer>) {
        let other_classes = effect.other_classes();
        effect.apply(&mut self.network);
        if let Some(port) = other_classes {
            self.meter.set_queue(&self.network, port);
        }
        self.follow();
    }

    /// Makes hosts' own queues what their ends of links are.
    pub fn follow(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.follow(&self.network));
    }

    /// When something is due next.
    fn deadline(&self) -> Time {
        let mark = self.marks.next().unwrap_or(Time::MAX);
        self.network.next_event().unwrap_or(Time::MAX).min(mark)
    }

    /// Reads what a host has sent, as far as it has its turn.
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

/// Before the threads of sockets, which have the least priority of those that compute in real time:
/// a network that waited for its hosts would make all of them late.
const PRIORITY: libc::c_int = 2;

/// Gives the calling thread real-time priority (`SCHED_FIFO`) and exact timers. Returns whether its
/// user may have that priority: the thread then wakes up within a third of a millisecond on an
/// overloaded machine, otherwise within several milliseconds.
pub(crate) fn take_real_time_priority() -> bool {
    // Otherwise the kernel may let us sleep for 50 µs more than we ask (PR_SET_TIMERSLACK(2const)).
    let _ = prctl::set_timerslack(1);
    let ahead = libc::sched_param { sched_priority: PRIORITY };
    #[allow(unsafe_code)]
    // SAFETY: the kernel reads a structure that lives until the call returns.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const ahead) };
    answer == 0
}

/// Runs the loop until nobody can ask for anything any more.
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
                // Who is woken by a packet may be so long after a deadline that did not matter.
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

/// Sleeps for so many nanoseconds at most; fills `ready` with who has something, none for the bell.
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

/// Returns the bins that together have a share of what was counted, up to where.
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

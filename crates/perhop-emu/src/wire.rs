//! Wires: they carry packets between two interfaces of Linux, with the delays and losses of a link.
//!
//! A wire has a TUN device at each end. Linux's own queue before the device decides which packet is
//! sent and when. The wire adds the transmission time at its rate and the propagation delay, and
//! delivers the packet. Packets do not wait in it for each other: those that come at once arrive at
//! once, because otherwise there would be a second queue. It drops nothing but its configured
//! losses, and packets that the device at the other end refuses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration as Wait;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::pipe2;
use perhop_core::{Bytes, Stream, Time};
use perhop_net::{Impairments, LinkCounters, Wire};
use thiserror::Error;

use crate::clock::monotonic;
use crate::netns::Namespace;
use crate::running::take_real_time_priority;
use crate::tun::{Tun, TunError};

/// Counters of one direction of a wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct WireCounters {
    /// Packets from the device at its beginning.
    pub carried: LinkCounters,
    /// Packets that the device at its end refused.
    pub refused: u64,
}

/// Reason why a wire cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The device of an end cannot be made.
    #[error(transparent)]
    Device(#[from] TunError),
    /// The thread cannot be started.
    #[error("a wire cannot be carried: {0}")]
    Thread(#[from] io::Error),
}

/// An end of a wire: a TUN device with this name and MTU in a namespace.
#[derive(Clone, Debug)]
pub struct WireEnd {
    /// Namespace of the device.
    pub namespace: Namespace,
    /// Name of the device.
    pub name: String,
}

/// Wires carried by one thread, until this is dropped.
#[derive(Debug)]
pub struct Wires {
    shared: Arc<Vec<Mutex<Direction>>>,
    wake: File,
    thread: Option<JoinHandle<()>>,
    real_time: bool,
}

/// Number of packets read from a device before others are served.
const BATCH: usize = 64;
/// Length of the longest packet, in bytes.
const LONGEST: usize = 65_536;
/// Greatest time for which the thread sleeps.
const LONGEST_SLEEP: Wait = Wait::from_secs(3600);

impl Wires {
    /// Makes the devices, which are down and have no addresses, and starts the thread.
    ///
    /// # Errors
    /// [`WireError`] if a device cannot be made, or the thread cannot be started.
    pub fn new(wires: &[([WireEnd; 2], [Wire; 2])], seed: u64) -> Result<Self, WireError> {
        let mut directions = Vec::new();
        for ([one, two], [there, back]) in wires {
            let near = Arc::new(Tun::bare(&one.namespace, &one.name)?);
            let far = Arc::new(Tun::bare(&two.namespace, &two.name)?);
            let both = [(&near, &far, &one.name, there), (&far, &near, &two.name, back)];
            for (from, to, name, settings) in both {
                let stream = Stream::new(seed, &format!("wire {name}"));
                let ends = (Arc::clone(from), Arc::clone(to));
                directions.push(Mutex::new(Direction::new(ends, *settings, stream)));
            }
        }
        let shared = Arc::new(directions);
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from)?;
        let carried = Arc::clone(&shared);
        let (sender, receiver) = sync_channel(1);
        let thread = std::thread::Builder::new().name("wires".into()).spawn(move || {
            let _ = sender.send(take_real_time_priority());
            carry(&carried, &File::from(reader));
        })?;
        let real_time = receiver.recv().unwrap_or(false);
        Ok(Self { shared, wake: File::from(writer), thread: Some(thread), real_time })
    }

    /// Returns `true` if the thread has real-time priority (`SCHED_FIFO`), which needs privileges.
    pub fn real_time(&self) -> bool {
        self.real_time
    }

    /// Changes the settings of a direction, numbered as in [`counters`](Self::counters), from now
    /// on.
    ///
    /// # Panics
    /// If there is no such direction.
    pub fn set(&self, number: usize, settings: Wire) {
        lock(&self.shared[number]).settings = settings;
    }

    /// Returns the counters of each direction: of the first wire from its first end, back, then of
    /// the next wire.
    pub fn counters(&self) -> Vec<WireCounters> {
        self.shared.iter().map(|direction| lock(direction).counters).collect()
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        let _ = self.wake.write_all(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Locks a direction, even if a thread that held the lock has panicked.
fn lock(direction: &Mutex<Direction>) -> std::sync::MutexGuard<'_, Direction> {
    direction.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packets in transit from one device to another.
#[derive(Debug)]
struct Direction {
    from: Arc<Tun>,
    to: Arc<Tun>,
    settings: Wire,
    impairments: Impairments,
    counters: WireCounters,
    /// Arrival time, order and buffer of packets in transit.
    under_way: BinaryHeap<Reverse<(Time, u64, usize)>>,
    came: u64,
    buffers: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl Direction {
    fn new((from, to): (Arc<Tun>, Arc<Tun>), settings: Wire, random: Stream) -> Self {
        Self {
            from,
            to,
            settings,
            impairments: Impairments::new(random),
            counters: WireCounters::default(),
            under_way: BinaryHeap::new(),
            came: 0,
            buffers: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds a packet that was read at `now`.
    fn take(&mut self, now: Time, packet: &[u8]) {
        let size = Bytes::new(packet.len() as u64);
        let Self { settings, impairments, counters: WireCounters { carried, .. }, .. } = self;
        let on_wire = settings.overhead.on_wire(size);
        carried.packets += 1;
        carried.bytes += on_wire;
        let arrival = now + on_wire / settings.rate + settings.delay;
        let Ok(arrival) = impairments.delay(settings, arrival, carried) else { return };
        let duplicated = impairments.duplicates(settings);
        carried.duplicated += u64::from(duplicated);
        self.put(arrival, packet);
        if duplicated {
            self.put(arrival, packet);
        }
    }

    fn put(&mut self, arrival: Time, packet: &[u8]) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(Vec::new());
            self.buffers.len() - 1
        });
        self.buffers[place].clear();
        self.buffers[place].extend_from_slice(packet);
        self.under_way.push(Reverse((arrival, self.came, place)));
        self.came += 1;
    }

    /// Delivers the packets that have arrived by `now`; returns the next arrival.
    fn deliver(&mut self, now: Time) -> Option<Time> {
        while let Some(&Reverse((arrival, _, place))) = self.under_way.peek() {
            if arrival > now {
                return Some(arrival);
            }
            self.under_way.pop();
            // A device that is down or has a full queue refuses packets; a wire does not wait for
            // it.
            if !self.to.write(&self.buffers[place]) {
                self.counters.refused += 1;
            }
            self.free.push(place);
        }
        None
    }
}

/// Carries packets until `stop` becomes readable.
fn carry(directions: &[Mutex<Direction>], stop: &File) {
    let sources: Vec<Arc<Tun>> =
        directions.iter().map(|direction| Arc::clone(&lock(direction).from)).collect();
    let mut gone = vec![false; sources.len()];
    let mut packet = vec![0; LONGEST];
    loop {
        let now = clock();
        let next = directions.iter().filter_map(|one| lock(one).deliver(now)).min();
        let sleep = next.map_or(LONGEST_SLEEP, |next| wait(clock(), next)).min(LONGEST_SLEEP);
        let mut polled = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        polled.extend(sources.iter().zip(&gone).map(|(source, gone)| {
            let of = if *gone { PollFlags::empty() } else { PollFlags::POLLIN };
            // Polling a device that is gone would return at once, again and again.
            PollFd::new(if *gone { stop.as_fd() } else { source.as_fd() }, of)
        }));
        // An interruption is treated like a timeout.
        let _ = ppoll(&mut polled, Some(TimeSpec::from_duration(sleep)), None);
        let came: Vec<PollFlags> =
            polled.iter().map(|one| one.revents().unwrap_or(PollFlags::empty())).collect();
        if !came[0].is_empty() {
            return;
        }
        for (number, came) in came[1..].iter().enumerate() {
            gone[number] |= came.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL);
            if came.contains(PollFlags::POLLIN) {
                let mut direction = lock(&directions[number]);
                for _ in 0..BATCH {
                    // The device has no more packets, or is down.
                    let Ok(Some(length)) = sources[number].read(&mut packet) else { break };
                    direction.take(clock(), &packet[..length]);
                }
            }
        }
    }
}

/// Returns the time of the monotonic clock.
fn clock() -> Time {
    Time::from_picos(monotonic() * 1000)
}

/// Returns the time from `now` to `then`.
fn wait(now: Time, then: Time) -> Wait {
    Wait::from_nanos(then.as_picos().saturating_sub(now.as_picos()).div_ceil(1000))
}

//! The server: accepts connections, assigns them to tests, and starts a thread for each test.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use nix::sys::eventfd::{EfdFlags, EventFd};
use perhop_socket::{Batch, Epoll, Event, Interest, Nanos, Socket, monotonic};
use perhop_traffic::Allowance;

use super::limits::Limits;
use super::message::{COOKIE, Cookie, State};
use super::record::{Folder, Record};
use super::test::{self, Caller};

/// Maximum number of connections without a cookie, and the time limit of the cookie.
const MAX_PENDING: usize = 256;
const PENDING: Nanos = 5_000_000_000;
/// Interval at which an idle thread checks whether the server stops, in nanoseconds.
const CHECK_INTERVAL: Nanos = 200_000_000;
/// Datagrams with which a client begins a stream of UDP, and their answers: numbers in the client's
/// byte order, and an older pair of numbers.
const UDP_CONNECT: [([u8; 4], [u8; 4]); 3] = [
    (*b"9876", *b"6789"),
    (*b"6789", *b"9876"),
    (123_456_789_u32.to_le_bytes(), 987_654_321_u32.to_le_bytes()),
];

/// Settings of a server.
#[derive(Debug, Default)]
pub struct Settings {
    /// Addresses to listen on. The unspecified address of IPv6 includes that of IPv4.
    pub listen: Vec<SocketAddr>,
    /// Limits of the owner.
    pub limits: Limits,
    /// Limits of the tests together with all other traffic of the process.
    pub allowance: Allowance,
    /// Folder for records; `None` writes no records.
    pub records: Option<PathBuf>,
    /// True if all clients read the monotonic clock of this machine, for instance in its network
    /// namespaces, so that one-way delays are absolute. Clients on this host always do.
    pub same_clock: bool,
}

/// A server, which stops when the value is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

/// A new connection, or socket of a stream of UDP.
pub(crate) struct Arrival {
    /// Position in the order of creation.
    pub serial: u64,
    pub socket: Socket,
    pub peer: SocketAddr,
}

/// State of a test that the accepting threads share.
pub(crate) struct Handle {
    number: u64,
    cookie: Cookie,
    client: IpAddr,
    at: SocketAddr,
    /// Number of streams that are still to be created, and true if they use UDP.
    expected: Mutex<(usize, bool)>,
    inbox: Mutex<Vec<Arrival>>,
    pub wake: EventFd,
}

/// State that all threads share.
pub(crate) struct Shared {
    pub settings: Settings,
    folder: Option<Folder>,
    stop: AtomicBool,
    serial: AtomicU64,
    tests: Mutex<HashMap<Cookie, Arc<Handle>>>,
    /// Tests that wait to create streams of UDP, by the client's address.
    queues: Mutex<HashMap<IpAddr, VecDeque<u64>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Listens, and starts the threads that serve clients.
    ///
    /// # Errors
    /// If an address cannot be bound, or the folder cannot be created.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let limits = &settings.limits;
        let folder = settings.records.as_deref();
        let folder = folder.map(|path| Folder::open(path, limits.records)).transpose()?;
        let mut listeners = Vec::new();
        for &address in &settings.listen {
            let listener = Listener::open(address)?;
            if address.ip() == IpAddr::from([0_u16; 8]) {
                let both = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), listener.at.port());
                listeners.push(Listener::open(both)?);
            }
            listeners.push(listener);
        }
        let shared = Arc::new(Shared {
            settings,
            folder,
            stop: AtomicBool::new(false),
            serial: AtomicU64::new(0),
            tests: Mutex::default(),
            queues: Mutex::default(),
        });
        let addresses = listeners.iter().map(|listener| listener.at).collect();
        let accept = |listener: Listener| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("iperf3".to_owned()).spawn(move || listener.accept(&shared))
        };
        let threads = listeners.into_iter().map(accept).collect::<io::Result<_>>()?;
        Ok(Self { shared, addresses, threads })
    }

    /// Returns the addresses on which the server listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the number of running tests.
    pub fn tests(&self) -> usize {
        lock(&self.shared.tests).len()
    }
}

impl Drop for Server {
    /// Ends all tests.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for handle in lock(&self.shared.tests).values() {
            let _ = handle.wake.write(1);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let deadline = monotonic() + PENDING;
        while self.tests() > 0 && monotonic() < deadline {
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Handle {
    /// Permits the client to create streams from now on.
    pub fn expect(&self, streams: usize, udp: bool) {
        *lock(&self.expected) = (streams, udp);
    }

    /// Clears the wake-up event.
    pub fn clear_wake(&self) {
        let _ = self.wake.read();
    }

    /// Returns the sockets of new streams.
    pub fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut lock(&self.inbox))
    }

    fn give(&self, arrival: Arrival) {
        lock(&self.inbox).push(arrival);
        let _ = self.wake.write(1);
    }

    /// Returns whether another stream is expected, and counts it.
    fn expects(&self, of_udp: bool) -> bool {
        let (left, udp) = &mut *lock(&self.expected);
        let expects = *left > 0 && *udp == of_udp;
        *left -= usize::from(expects);
        expects
    }
}

/// Position of a test in the queue of its client's address.
pub(crate) struct QueueSlot<'a>(&'a Shared, IpAddr, u64);

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.0.queues);
        let Some(queue) = queues.get_mut(&self.1) else { return };
        queue.retain(|&number| number != self.2);
        let next = queue.front().copied();
        if queue.is_empty() {
            queues.remove(&self.1);
        }
        drop(queues);
        if let Some(next) = next {
            let tests = lock(&self.0.tests);
            if let Some(handle) = tests.values().find(|handle| handle.number == next) {
                let _ = handle.wake.write(1);
            }
        }
    }
}

impl Shared {
    /// Returns whether the server stops.
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Queues a test that creates streams of UDP.
    pub fn queue(&self, handle: &Handle) -> QueueSlot<'_> {
        lock(&self.queues).entry(handle.client).or_default().push_back(handle.number);
        QueueSlot(self, handle.client, handle.number)
    }

    /// Returns whether a test is the first in its queue.
    pub fn is_first_in_queue(&self, handle: &Handle) -> bool {
        let queues = lock(&self.queues);
        queues.get(&handle.client).and_then(VecDeque::front) == Some(&handle.number)
    }

    /// Writes a record, if there is a folder.
    pub fn record(&self, record: &Record) {
        let Some(folder) = &self.folder else { return };
        if let Err(error) = folder.write(record) {
            eprintln!(
                "perhop-agent: cannot write the record of the test of {}: {error}",
                record.client
            );
        }
    }

    fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the test whose client may now create streams of UDP from this address.
    fn making(&self, client: IpAddr) -> Option<Arc<Handle>> {
        let number = *lock(&self.queues).get(&client)?.front()?;
        lock(&self.tests).values().find(|handle| handle.number == number).cloned()
    }

    /// Assigns a connection with a complete cookie: to its test as a stream, or to a new test.
    fn admit(self: &Arc<Self>, cookie: Cookie, at: SocketAddr, arrival: Arrival) {
        let Arrival { serial, socket, peer } = arrival;
        let mut tests = lock(&self.tests);
        if let Some(handle) = tests.get(&cookie) {
            if handle.client == peer.ip() && handle.expects(false) {
                handle.give(Arrival { serial, socket, peer });
                return;
            }
            let _ = socket.send(&[State::AccessDenied.byte()]);
            return;
        }
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
        let (Ok(wake), Ok(at)) = (wake, socket.local_address().or(Ok::<_, io::Error>(at))) else {
            return;
        };
        if tests.len() >= self.settings.limits.tests as usize {
            let _ = socket.send(&[State::AccessDenied.byte()]);
            return;
        }
        let handle = Arc::new(Handle {
            number: serial,
            cookie,
            client: peer.ip(),
            at,
            expected: Mutex::default(),
            inbox: Mutex::default(),
            wake,
        });
        tests.insert(cookie, Arc::clone(&handle));
        drop(tests);
        let shared = Arc::clone(self);
        let caller = Caller { socket, client: peer, server: at };
        let run = move || {
            let _guard = TestGuard(&shared, handle.cookie);
            test::run(&shared, &handle, caller);
        };
        if thread::Builder::new().name("iperf3 test".to_owned()).spawn(run).is_err() {
            lock(&self.tests).remove(&cookie);
        }
    }
}

/// Guard that removes a test when its thread ends, also by a panic.
struct TestGuard<'a>(&'a Shared, Cookie);

impl Drop for TestGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.tests).remove(&self.1);
    }
}

/// A connection whose cookie is incomplete.
struct Pending {
    serial: u64,
    since: Nanos,
    peer: SocketAddr,
    socket: Socket,
    cookie: Vec<u8>,
}

/// A listening address.
struct Listener {
    at: SocketAddr,
    tcp: Socket,
    udp: Socket,
}

const TCP: u64 = 0;
const UDP: u64 = 1;
const CONNECTIONS: u64 = 2;

impl Listener {
    fn open(at: SocketAddr) -> io::Result<Self> {
        let explain = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {at}: {error}"))
        };
        let tcp = socket(at, libc::SOCK_STREAM).map_err(explain)?;
        tcp.bind(at).and_then(|()| tcp.listen(128)).map_err(explain)?;
        let at = tcp.local_address()?;
        let udp = socket(at, libc::SOCK_DGRAM).and_then(|udp| udp.bind(at).map(|()| udp));
        Ok(Self { at, tcp, udp: udp.map_err(explain)? })
    }

    fn accept(self, shared: &Arc<Shared>) {
        let Ok(epoll) = Epoll::new() else { return };
        let watched = epoll
            .add(self.tcp.as_fd(), TCP, Interest::Readable)
            .and_then(|()| epoll.add(self.udp.as_fd(), UDP, Interest::Readable));
        if let Err(error) = watched {
            eprintln!("perhop-agent: cannot accept connections at {}: {error}", self.at);
            return;
        }
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut batch = Batch::new(16, 64);
        let mut ready = vec![Event { events: 0, u64: 0 }; 64];
        while !shared.stops() {
            let count = epoll.wait(&mut ready, monotonic() + CHECK_INTERVAL).unwrap_or(0);
            let now = monotonic();
            for event in &ready[..count] {
                match event.u64 {
                    TCP => self.take_connections(shared, &epoll, &mut pending, now),
                    UDP => {
                        let count = batch.receive(&self.udp).unwrap_or(0);
                        for number in 0..count {
                            let datagram = batch.get(number);
                            self.accept_stream(shared, datagram.bytes, datagram.from);
                        }
                    }
                    token => self.read_cookie(shared, &epoll, &mut pending, token - CONNECTIONS),
                }
            }
            while pending.front().is_some_and(|first| now > first.since + PENDING) {
                pending.pop_front();
            }
        }
    }

    fn take_connections(
        &self,
        shared: &Shared,
        epoll: &Epoll,
        pending: &mut VecDeque<Pending>,
        now: Nanos,
    ) {
        for _ in 0..MAX_PENDING {
            let (socket, peer) = match self.tcp.accept() {
                Ok((socket, Some(peer))) => (socket, peer),
                Ok(_) => continue,
                Err(error) => {
                    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                        // The oldest pending connection is closed.
                        pending.pop_front();
                        thread::sleep(std::time::Duration::from_millis(1));
                    }
                    return;
                }
            };
            if pending.len() >= MAX_PENDING {
                pending.pop_front();
            }
            let serial = shared.serial();
            if epoll.add(socket.as_fd(), CONNECTIONS + serial, Interest::Readable).is_ok() {
                let cookie = Vec::with_capacity(COOKIE);
                pending.push_back(Pending { serial, since: now, peer, socket, cookie });
            }
        }
    }

    fn read_cookie(
        &self,
        shared: &Arc<Shared>,
        epoll: &Epoll,
        pending: &mut VecDeque<Pending>,
        serial: u64,
    ) {
        let Ok(place) = pending.binary_search_by_key(&serial, |each| each.serial) else { return };
        let each = &mut pending[place];
        let mut bytes = [0; COOKIE];
        // Read no further: the following bytes belong to the test.
        let room = &mut bytes[..COOKIE - each.cookie.len()];
        let count = match each.socket.read(room) {
            Ok(count) if count > 0 => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => {
                pending.remove(place);
                return;
            }
        };
        each.cookie.extend_from_slice(&bytes[..count]);
        if each.cookie.len() < COOKIE {
            return;
        }
        let Some(each) = pending.remove(place) else { return };
        let (Ok(cookie), Ok(())) =
            (Cookie::try_from(each.cookie), epoll.remove(each.socket.as_fd()))
        else {
            return;
        };
        let arrival = Arrival { serial, socket: each.socket, peer: each.peer };
        shared.admit(cookie, self.at, arrival);
    }

    /// Handles the first datagram of a stream of UDP. It is answered if its test creates such
    /// streams now. The test sends data only to the source of this datagram.
    fn accept_stream(&self, shared: &Shared, bytes: &[u8], from: Option<SocketAddr>) {
        let Some((_, answer)) = UDP_CONNECT.iter().find(|(request, _)| request == bytes) else {
            return;
        };
        let Some(peer) = from else { return };
        let Some(handle) = shared.making(peer.ip()) else { return };
        if handle.at.port() != self.at.port() || !handle.expects(true) {
            return;
        }
        let socket = match self.connect(handle.at, peer) {
            Ok(socket) => socket,
            Err(error) => {
                eprintln!("perhop-agent: cannot open a stream of {peer}: {error}");
                return;
            }
        };
        // Between bind and connect the socket may have received first datagrams of other clients.
        let mut batch = Batch::new(4, 64);
        while let Ok(count) = batch.receive(&socket)
            && count > 0
        {
            for number in 0..count {
                let datagram = batch.get(number);
                if datagram.from != Some(peer) {
                    self.accept_stream(shared, datagram.bytes, datagram.from);
                }
            }
        }
        if socket.send(answer).is_ok() {
            handle.give(Arrival { serial: shared.serial(), socket, peer });
        }
    }

    /// Returns a socket for datagrams between the server's address and the client's.
    fn connect(&self, at: SocketAddr, peer: SocketAddr) -> io::Result<Socket> {
        let udp = socket(at, libc::SOCK_DGRAM)?;
        udp.stamp_arrivals()?;
        udp.report_traffic_class(at.ip())?;
        let _ = udp.set((libc::SOL_UDP, libc::UDP_GRO), 1);
        udp.bind(at)?;
        udp.connect(peer)?;
        Ok(udp)
    }
}

/// Returns a socket whose address other sockets may share.
fn socket(at: SocketAddr, kind: libc::c_int) -> io::Result<Socket> {
    let socket = Socket::like(at, kind, 0)?;
    socket.set((libc::SOL_SOCKET, libc::SO_REUSEADDR), 1)?;
    if at.is_ipv6() {
        socket.set((libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), 1)?;
    }
    Ok(socket)
}

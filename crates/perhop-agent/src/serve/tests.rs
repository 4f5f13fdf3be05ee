//! Agents and controllers on loopback.

use std::io::{Read, Write};
use std::net::Ipv4Addr;

use super::*;
use crate::controller::{LiveError, Peer, compare_clocks};
use crate::frames::{Request, VERSION};

/// An agent in a thread of this process.
struct Host {
    address: SocketAddr,
    key: PublicKey,
    agent: Arc<Agent>,
}

fn host(allowed: &[&Identity], limits: Limits) -> Host {
    host_with_frames_within(FRAME_TIMEOUT, allowed, limits)
}

/// Returns an agent that allows a frame to take so long, in nanoseconds.
fn host_with_frames_within(frame_timeout: Nanos, allowed: &[&Identity], limits: Limits) -> Host {
    let settings = Settings {
        identity: Identity::generate(),
        allowed: allowed.iter().map(|identity| identity.public()).collect(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        limits,
        real_time: false,
        frame_timeout,
    };
    let server = Server::new(settings).unwrap();
    let host = Host {
        address: server.address().unwrap(),
        key: server.public(),
        agent: Arc::clone(&server.agent),
    };
    thread::spawn(move || server.run());
    host
}

impl Host {
    fn connect(&self, identity: &Identity) -> Result<Peer, LiveError> {
        Peer::connect("a", self.address, self.key, identity)
    }

    /// Waits until the agent has no connections, for a second at most.
    fn is_quiet(&self) -> bool {
        let until = monotonic() + 1_000_000_000;
        while monotonic() < until {
            let waiting = self.agent.waiting.lock().unwrap().len();
            if self.agent.status().connections == 0 && waiting == 0 {
                return self.agent.status().sessions == 0;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn code(error: &LiveError) -> Option<ErrorCode> {
    match error {
        LiveError::Refused { code, .. } => Some(*code),
        _ => None,
    }
}

#[test]
fn an_allowed_controller_is_greeted_and_told_the_time() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits { flows: 7, ..Limits::default() });
    let mut peer = host.connect(&identity).unwrap();
    assert_eq!(peer.limits.flows, 7);
    peer.send(&Request::Status {});
    let Reply::Status(status) = peer.reply(SECOND, "answered").unwrap() else { panic!() };
    assert_eq!((status.sessions, status.connections), (0, 1));
    for _ in 0..5 {
        peer.ask_time();
        peer.send(&Request::Status {});
        peer.reply(SECOND, "answered").unwrap();
    }
    let clock = peer.clock.monotonic(monotonic()).unwrap();
    assert!(clock.ahead.unsigned_abs() <= clock.bound, "one clock, and {clock:?}");
    assert!(clock.bound < 5_000_000, "{clock:?}");
    peer.close();
    assert!(host.is_quiet());
}

#[test]
fn without_an_allowed_key_nothing_is_served() {
    let (ours, other) = (Identity::generate(), Identity::generate());
    let settings = Settings {
        identity: Identity::generate(),
        allowed: Vec::new(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        limits: Limits::default(),
        real_time: false,
        frame_timeout: FRAME_TIMEOUT,
    };
    assert!(matches!(Server::new(settings), Err(ServeError::Nobody)));
    let host = host(&[&ours], Limits::default());
    let refused = host.connect(&other).unwrap_err();
    assert!(matches!(refused, LiveError::NotAllowed { .. }), "{refused}");
    assert!(refused.to_string().contains(&other.public().to_string()), "{refused}");
    let mistaken = Peer::connect("a", host.address, other.public(), &ours).unwrap_err();
    assert!(matches!(mistaken, LiveError::WrongKey { .. }), "{mistaken}");
    assert!(host.is_quiet());
    // Without TLS nothing of the protocol is looked at.
    let mut plain = TcpStream::connect(host.address).unwrap();
    plain.write_all(&frames::write(&Request::Hello { version: 1, program: "x".into() })).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(5).any(|part| part == b"hello"), "{answer:?}");
}

#[test]
fn another_version_is_refused_with_what_to_do() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits::default());
    let tls = tls::controller(&identity, host.key).unwrap();
    let socket = TcpStream::connect(host.address).unwrap();
    let mut channel = Channel::new(socket, tls::connect(&tls).unwrap(), LONGEST_GREETING).unwrap();
    channel.send(&Request::Hello { version: VERSION + 1, program: "perhop 99".into() });
    let reply: Reply = loop {
        channel.progress().unwrap();
        if let Some(received) = channel.receive().unwrap() {
            break frames::read(&received.frame).unwrap();
        }
        wait(&[&channel], monotonic() + 1_000_000_000);
    };
    let Reply::Error { code: ErrorCode::Version, message } = reply else { panic!("{reply:?}") };
    assert!(message.contains("version 2") && message.contains("install"), "{message}");
}

#[test]
fn what_does_not_fit_the_state_ends_the_connection() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits::default());
    for request in [
        Request::Hello { version: VERSION, program: "again".into() },
        Request::Prove { within: 1, clocks: Vec::new() },
        Request::Start { zero: 1 },
    ] {
        let mut peer = host.connect(&identity).unwrap();
        peer.send(&request);
        let error = peer.reply(SECOND, "answered").unwrap_err();
        assert_eq!(code(&error), Some(ErrorCode::State), "{error}");
        let error = peer.reply(SECOND, "answered").unwrap_err();
        assert!(
            matches!(error, LiveError::Disconnected { error: ChannelError::Closed, .. }),
            "{error}"
        );
    }
    assert!(host.is_quiet());
}

/// A job of node a alone, with nothing to send.
fn idle_job() -> Box<perhop_traffic::Job> {
    let job = serde_json::json!({
        "seed": 1, "marks": [1_000_000_000], "nodes": [
            {"name": "a", "namespace": 0, "addresses": ["127.0.0.1"]}],
        "timers": {"min_rto": 1, "delayed_ack": 1},
        "live": {"token": "00".repeat(16), "flows": []},
    });
    serde_json::from_value(job).unwrap()
}

#[test]
fn frames_that_are_too_long_are_refused_before_they_have_come() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits::default());
    let mut peer = host.connect(&identity).unwrap();
    peer.send(&Request::Prepare { node: "x".repeat(LONGEST_REQUEST), job: idle_job() });
    let error = peer.reply(5 * SECOND, "answered").unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::Malformed), "{error}");
    assert!(error.to_string().contains("expected at most 4194304 B"), "{error}");
    assert!(host.is_quiet());
}

#[test]
fn a_controller_changes_no_settings_and_is_one_node_only() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits::default());
    let mut settings = idle_job();
    settings.nodes[0].settings = vec![("net.ipv4.ip_forward".into(), "1".into())];
    let mut absent = idle_job();
    absent.nodes[0].namespace = None;
    let mut unproved = idle_job();
    unproved.live = None;
    for (job, says) in [(settings, "settings"), (absent, "namespace"), (unproved, "live")] {
        let mut peer = host.connect(&identity).unwrap();
        peer.send(&Request::Prepare { node: "a".into(), job });
        let error = peer.reply(SECOND, "answered").unwrap_err();
        assert_eq!(code(&error), Some(ErrorCode::Job), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    assert!(host.is_quiet());
}

#[test]
fn silence_ends_a_session() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits { silence: 300_000_000, ..Limits::default() });
    let mut peer = host.connect(&identity).unwrap();
    peer.send(&Request::Prepare { node: "a".into(), job: idle_job() });
    let reply = peer.reply(SECOND, "prepared").unwrap();
    assert!(matches!(reply, Reply::Prepared { .. }), "{reply:?}");
    assert_eq!(host.agent.status().sessions, 1);
    let begun = monotonic();
    let error = peer.reply(3 * SECOND, "answered").unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::Silence), "{error}");
    assert!(monotonic() - begun > 250_000_000);
    assert!(host.is_quiet());
}

#[test]
fn those_who_say_nothing_keep_nobody_out() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits::default());
    let mut silent = Vec::new();
    for number in 0..500 {
        let mut socket = TcpStream::connect(host.address).unwrap();
        // Some send the beginning of a handshake, others rubbish, others nothing.
        let bytes: &[u8] =
            [&b"\x16\x03\x01\x02\x00\x01"[..], b"GET / HTTP/1.1\r\n\r\n", b""][number % 3];
        let _ = socket.write_all(bytes);
        silent.push(socket);
    }
    let peer = host.connect(&identity).unwrap();
    assert!(host.agent.waiting.lock().unwrap().len() <= MOST_WAITING);
    assert!(host.agent.status().connections <= 2 * MOST_WAITING as u64 + 20);
    peer.close();
    drop(silent);
    assert!(host.is_quiet());
}

/// A path of 20 ms in each direction, and up to 2 ms more as it comes, in front of an address.
fn far_away(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        for socket in [&near, &far] {
            socket.set_nodelay(true).unwrap();
        }
        let pairs = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
        for (seed, (mut from, mut to)) in pairs.into_iter().enumerate() {
            let (give, take) = std::sync::mpsc::channel::<(Nanos, Vec<u8>)>();
            thread::spawn(move || {
                let mut random = perhop_core::Stream::new(seed as u64, "path");
                let mut chunk = [0; 4096];
                while let Ok(length @ 1..) = from.read(&mut chunk) {
                    let due = monotonic() + 20_000_000 + random.up_to(2_000_000);
                    let _ = give.send((due, chunk[..length].to_vec()));
                }
            });
            thread::spawn(move || {
                for (due, bytes) in take {
                    perhop_socket::sleep_until(due);
                    let _ = to.write_all(&bytes);
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// Opens a connection from another address of this host, without waiting.
fn open_from(from: Ipv4Addr, to: SocketAddr) -> perhop_socket::Socket {
    let from = SocketAddr::new(from.into(), 0);
    let socket = perhop_socket::Socket::like(from, libc::SOCK_STREAM, 0).unwrap();
    socket.bind(from).unwrap();
    socket.connect(to).unwrap();
    socket
}

#[test]
fn a_source_that_floods_keeps_no_other_out() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits::default());
    let over = std::sync::atomic::AtomicBool::new(false);
    let opened = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sockets = std::collections::VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                for _ in 0..8 {
                    sockets.push_back(open_from(Ipv4Addr::new(127, 0, 0, 9), host.address));
                    opened.fetch_add(1, Ordering::Relaxed);
                }
                sockets.drain(..sockets.len().saturating_sub(200));
                thread::sleep(Duration::from_millis(2));
            }
        });
        thread::sleep(Duration::from_millis(200));
        // The handshake takes 80 ms, in which more than 64 others connect.
        let before = opened.load(Ordering::Relaxed);
        let peer = Peer::connect("a", far_away(host.address), host.key, &identity);
        let during = opened.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        peer.unwrap().close();
        assert!(during > 2 * MOST_WAITING as u64, "{during} connections are no flood");
    });
    assert!(host.is_quiet());
}

#[test]
fn hosts_far_away_start_within_a_millisecond() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits::default());
    let mut peers: Vec<_> = (0..5)
        .map(|number| {
            let address = far_away(host.address);
            Peer::connect(&format!("n{number}"), address, host.key, &identity).unwrap()
        })
        .collect();
    compare_clocks(&mut peers).unwrap();
    for peer in peers {
        let clock = peer.clock.monotonic(monotonic()).unwrap();
        // All are one clock: what is found is the error.
        assert!(clock.ahead.unsigned_abs() < 1_000_000, "{clock:?}");
        assert!(clock.ahead.unsigned_abs() <= clock.bound, "{clock:?}");
        assert!((19_000_000..25_000_000).contains(&clock.bound), "{clock:?}");
    }
}

#[test]
fn even_allowed_controllers_have_a_number_of_connections() {
    let identity = Identity::generate();
    let host = host(&[&identity], Limits { sessions: 1, ..Limits::default() });
    let peers: Vec<_> = (0..=MOST_IDLE).map(|_| host.connect(&identity).unwrap()).collect();
    let mut late = host.connect(&identity).unwrap();
    let error = late.reply(SECOND, "answered").unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::Busy), "{error}");
    late.close();
    peers.into_iter().for_each(Peer::close);
    assert!(host.is_quiet());
    host.connect(&identity).unwrap();
}

/// Connection of an allowed controller that writes bytes, whole or slowly.
struct Writer {
    tls: rustls::Connection,
    socket: TcpStream,
}

impl Writer {
    /// Connects, and sends `hello`.
    fn greet(host: &Host, identity: &Identity) -> Self {
        let tls = tls::connect(&tls::controller(identity, host.key).unwrap()).unwrap();
        let mut socket = TcpStream::connect(host.address).unwrap();
        socket.set_read_timeout(Some(5 * SECOND)).unwrap();
        let mut writer = Self { tls, socket: socket.try_clone().unwrap() };
        while writer.tls.is_handshaking() {
            writer.tls.complete_io(&mut socket).unwrap();
        }
        let hello = Request::Hello { version: VERSION, program: "slow".into() };
        let record = writer.record(&frames::write(&hello));
        socket.write_all(&record).unwrap();
        writer
    }

    /// Returns the TLS record of these bytes.
    fn record(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.tls.writer().write_all(bytes).unwrap();
        let mut record = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut record).unwrap();
        }
        record
    }

    /// Sends parts one by one, some milliseconds apart, until the agent has closed the connection.
    /// Returns how long that took.
    fn drip(mut self, parts: impl Iterator<Item = Vec<u8>>) -> Option<Duration> {
        let begun = monotonic();
        self.socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        for part in parts {
            let sent = self.socket.write_all(&part);
            let read = self.socket.read(&mut [0; 4096]);
            let is_open = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            if sent.is_err() || matches!(read, Ok(0)) || read.is_err_and(|error| !is_open(&error)) {
                return Some(Duration::from_nanos(monotonic() - begun));
            }
        }
        None
    }
}

#[test]
fn slow_frames_end_their_connection() {
    let identity = Identity::generate();
    let timeout = 400_000_000;
    let host = host_with_frames_within(timeout, &[&identity], Limits::default());
    let frame = frames::write(&Request::Prepare { node: "x".repeat(2_000), job: idle_job() });
    // A TLS record for each byte of a frame, and a record of a frame byte by byte.
    let mut writer = Writer::greet(&host, &identity);
    let records: Vec<_> = frame.iter().map(|byte| writer.record(&[*byte])).collect();
    let of_records = writer.drip(records.into_iter());
    let mut writer = Writer::greet(&host, &identity);
    let record = writer.record(&frame);
    let of_bytes = writer.drip(record.into_iter().map(|byte| vec![byte]));
    for time in [of_records, of_bytes] {
        let time = time.expect("the connection ends");
        assert!((350..5_000).contains(&time.as_millis()), "{time:?}");
    }
    // Frames that come in time reset the limit.
    let mut writer = Writer::greet(&host, &identity);
    let whole: Vec<_> =
        (0..80).map(|sent| writer.record(&frames::write(&Request::Time { sent }))).collect();
    assert_eq!(writer.drip(whole.into_iter()), None);
    assert!(host.is_quiet());
}

#[test]
fn those_who_send_a_byte_now_and_then_keep_nobody_out() {
    let identity = Identity::generate();
    let limits = Limits { sessions: 1, ..Limits::default() };
    let host = host_with_frames_within(500_000_000, &[&identity], limits);
    let over = std::sync::atomic::AtomicBool::new(false);
    let connected = thread::scope(|scope| {
        // As many as the agent accepts of those whose key is proved, and many others.
        for _ in 0..=MOST_IDLE {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let mut writer = Writer::greet(&host, &identity);
                    let record = writer.record(&[0; 4_000]);
                    let bytes = record.into_iter().map(|byte| vec![byte]);
                    writer.drip(bytes.take_while(|_| !over.load(Ordering::Relaxed)));
                }
            });
        }
        scope.spawn(|| {
            let mut slow = std::collections::VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                slow.extend(TcpStream::connect(host.address));
                slow.drain(..slow.len().saturating_sub(300));
                for socket in &mut slow {
                    let _ = socket.write_all(b"\x16");
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        thread::sleep(Duration::from_millis(300));
        // A controller that is refused tries again.
        let until = monotonic() + 10_000_000_000;
        let mut connected = 0;
        while connected < 5 && monotonic() < until {
            let greeted = host.connect(&identity).and_then(|mut peer| {
                peer.send(&Request::Status {});
                peer.reply(SECOND, "answered")
            });
            connected += u32::from(greeted.is_ok());
        }
        over.store(true, Ordering::Relaxed);
        connected
    });
    assert_eq!(connected, 5);
    assert!(host.is_quiet());
}

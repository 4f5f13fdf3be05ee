//! Serving: connections of controllers, each in a thread.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::utsname::uname;
use perhop_socket::{Nanos, clock_quality, monotonic};
use perhop_traffic::Allowance;
use rustls::ServerConfig;
use thiserror::Error;

use self::waiting::{MOST_WAITING, Waiting};
use crate::channel::{Channel, ChannelError, FRAME_TIMEOUT, SendMemory, wait};
use crate::frames::{self, ErrorCode, HostFacts, LONGEST_GREETING, LONGEST_REQUEST, Reply, Status};
use crate::iperf3;
use crate::key::{self, Identity, PublicKey};
use crate::limits::{self, Limits};
use crate::options::{Opt, Usage, wrong};
use crate::path;
use crate::session::{Refusal, Session, program_name};
use crate::stamp::{self, CLOCK_DRIFT, CLOCK_OFFSET, CLOCK_STATED, Reflector, clock_options};
use crate::tls;

mod waiting;

/// Time within which a connection must send `hello`.
const GREETING: Nanos = 5_000_000_000;
/// Most connections of allowed controllers, besides one for each session.
const MOST_IDLE: u64 = 16;
/// Time for sending the last messages of a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause while closed connections have not ended yet.
const CLOSING_PAUSE: Duration = Duration::from_millis(1);
/// Pause when the kernel has no resources for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Settings of an agent, from its owner.
#[derive(Debug)]
pub struct Settings {
    /// Its keys.
    pub identity: Identity,
    /// The controllers that it serves.
    pub allowed: Vec<PublicKey>,
    /// The address and port at which it listens.
    pub listen: SocketAddr,
    /// The limits of what it does for them.
    pub limits: Limits,
    /// True if threads of a run may have real-time priority, where the controller requests it.
    pub real_time: bool,
    /// Maximum time from the first byte of a frame to its last, in nanoseconds.
    pub frame_timeout: Nanos,
}

/// Error that keeps an agent from serving.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No key is allowed.
    #[error("no key is allowed; set --allow to the public key of a controller")]
    Nobody,
    /// Listening failed.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// Its keys cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// State that all connections of an agent share.
#[derive(Debug)]
pub struct Agent {
    /// The owner's limits.
    pub limits: Limits,
    /// True if threads of a run may have real-time priority.
    pub real_time: bool,
    /// Limits of all its sessions and servers together.
    pub allowance: Allowance,
    /// Facts about the agent and its host.
    pub host: HostFacts,
    tls: Arc<ServerConfig>,
    frame_timeout: Nanos,
    since: Nanos,
    sessions: AtomicU64,
    connections: AtomicU64,
    /// Number of connections that have sent `hello`.
    greeted: AtomicU64,
    /// Connections that have not sent `hello`.
    waiting: Mutex<Waiting<TcpStream>>,
    /// Memory of the unsent messages of all connections.
    send_memory: SendMemory,
}

/// A session's slot among those that the agent's owner allows; dropping it frees the slot.
#[derive(Debug)]
pub struct SessionSlot(Arc<Agent>);

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Agent {
    /// Returns the current numbers of sessions and connections.
    pub fn status(&self) -> Status {
        Status {
            sessions: self.sessions.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            up: monotonic().saturating_sub(self.since),
        }
    }

    /// Returns a slot for another session, if one is free.
    pub fn session_slot(self: &Arc<Self>) -> Option<SessionSlot> {
        let more = |now: u64| (now < self.limits.sessions).then_some(now + 1);
        let taken = self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| SessionSlot(Arc::clone(self)))
    }

    /// Adds a connection that has not sent `hello`; closes another if there are too many.
    fn add_pending(&self, number: u64, from: IpAddr, socket: &TcpStream) -> io::Result<()> {
        let socket = socket.try_clone()?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(closed) = waiting.add(number, from, socket) {
            let _ = closed.shutdown(Shutdown::Both);
        }
        Ok(())
    }

    /// Returns the most connections of allowed controllers.
    fn most_greeted(&self) -> u64 {
        self.limits.sessions.saturating_add(MOST_IDLE)
    }

    /// Returns whether no other connection is accepted for now.
    fn is_full(&self) -> bool {
        let most = self.most_greeted().saturating_add(2 * MOST_WAITING as u64);
        self.connections.load(Ordering::Relaxed) >= most
    }

    fn remove_pending(&self, number: u64) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(number);
    }
}

/// A listening agent.
#[derive(Debug)]
pub struct Server {
    agent: Arc<Agent>,
    listener: TcpListener,
    public: PublicKey,
}

impl Server {
    /// Creates the agent and listens.
    ///
    /// # Errors
    /// [`ServeError`], such as when no key is allowed.
    pub fn new(settings: Settings) -> Result<Self, ServeError> {
        let Settings { identity, allowed, listen, limits, real_time, frame_timeout } = settings;
        if allowed.is_empty() {
            return Err(ServeError::Nobody);
        }
        let tls = tls::agent(&identity, &allowed)?;
        let listener =
            TcpListener::bind(listen).map_err(|error| ServeError::Listen(listen, error))?;
        let agent = Agent {
            allowance: limits.allowance(),
            limits,
            real_time,
            host: host(),
            tls,
            frame_timeout,
            since: monotonic(),
            sessions: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            greeted: AtomicU64::new(0),
            waiting: Mutex::default(),
            send_memory: SendMemory::default(),
        };
        Ok(Self { agent: Arc::new(agent), listener, public: identity.public() })
    }

    /// Returns the address and port at which it listens.
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns its public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Serves until the process ends.
    pub fn run(&self) -> ! {
        for number in 0.. {
            let Ok((socket, from)) = self.listener.accept() else {
                thread::sleep(ACCEPT_PAUSE);
                continue;
            };
            if self.agent.add_pending(number, from.ip(), &socket).is_err() {
                continue;
            }
            let mut connection = Connection::new(&self.agent, number);
            let serve = move || {
                // The other side has been sent the reason, as far as possible.
                let _ = serve_connection(&mut connection, socket);
            };
            // Without a thread, the connection is closed.
            let _ = thread::Builder::new().name("perhop-control".into()).spawn(serve);
            while self.agent.is_full() {
                // Closed connections have not ended yet.
                thread::sleep(CLOSING_PAUSE);
            }
        }
        unreachable!("more connections than numbers")
    }
}

/// A counted connection of an agent; dropping it ends the count.
#[derive(Debug)]
struct Connection {
    agent: Arc<Agent>,
    number: u64,
    greeted: bool,
}

impl Connection {
    fn new(agent: &Arc<Agent>, number: u64) -> Self {
        agent.connections.fetch_add(1, Ordering::Relaxed);
        Self { agent: Arc::clone(agent), number, greeted: false }
    }

    /// Moves the connection to those that have sent `hello`.
    ///
    /// # Errors
    /// [`Refusal`] if there are too many.
    fn greet(&mut self) -> Result<(), Refusal> {
        self.agent.remove_pending(self.number);
        self.greeted = true;
        let connections = self.agent.greeted.fetch_add(1, Ordering::Relaxed) + 1;
        if connections <= self.agent.most_greeted() {
            return Ok(());
        }
        let message = format!("the agent has {connections} connections");
        Err(Refusal { code: ErrorCode::Busy, message })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.agent.remove_pending(self.number);
        self.agent.greeted.fetch_sub(self.greeted.into(), Ordering::Relaxed);
        self.agent.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a connection until its end.
fn serve_connection(connection: &mut Connection, socket: TcpStream) -> Result<(), ChannelError> {
    let agent = &Arc::clone(&connection.agent);
    let begun = monotonic();
    let mut channel = Channel::new(socket, tls::accept(&agent.tls)?, LONGEST_GREETING)?;
    channel.set_frame_timeout(agent.frame_timeout);
    channel.set_send_memory(agent.send_memory.clone());
    let mut session = Session::new(Arc::clone(agent));
    loop {
        let until = if session.has_greeted() { session.due() } else { begun + GREETING };
        wait(&[&channel], until);
        match exchange(connection, &mut channel, &mut session) {
            Ok(()) => {}
            Err(End::Disconnected(error)) => {
                drop(session);
                return Err(error);
            }
            Err(End::Refused(Refusal { code, message })) => {
                drop(session);
                channel.send(&Reply::Error { code, message });
                channel.close(CLOSE_TIMEOUT);
                return Ok(());
            }
        }
        if !session.has_greeted() && monotonic() > begun + GREETING {
            return Err(ChannelError::Silent(Duration::from_nanos(GREETING)));
        }
    }
}

/// Reason for the end of a connection.
enum End {
    Disconnected(ChannelError),
    Refused(Refusal),
}

impl From<ChannelError> for End {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Frame(error) => Self::Refused(error.into()),
            slow @ ChannelError::SlowFrame(_) => {
                Self::Refused(Refusal { code: ErrorCode::Malformed, message: slow.to_string() })
            }
            error => Self::Disconnected(error),
        }
    }
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Reads and answers requests, and does the session's periodic work.
fn exchange(
    connection: &mut Connection,
    channel: &mut Channel,
    session: &mut Session,
) -> Result<(), End> {
    channel.progress()?;
    while let Some(received) = channel.receive()? {
        let request = frames::read(&received.frame).map_err(Refusal::from)?;
        for reply in session.answer(request, received.at)? {
            channel.send(&reply);
        }
        if session.has_greeted() && !connection.greeted {
            connection.greet()?;
            channel.set_longest(LONGEST_REQUEST);
        }
    }
    for reply in session.tick()? {
        channel.send(&reply);
    }
    if session.has_greeted()
        && let Err(silent) = channel.check_silence(session.silence())
    {
        let message = format!("{silent}; the session is over (--silence)");
        return Err(Refusal { code: ErrorCode::Silence, message }.into());
    }
    Ok(channel.flush()?)
}

/// Programs that synchronise the real-time clock, by their names in the kernel, which have at most
/// 15 bytes: those of NTP, and that of PTP.
const CLOCK_PROGRAMS: [&str; 5] = ["chronyd", "ntpd", "systemd-timesyn", "phc2sys", "openntpd"];

/// Returns the program that synchronises the real-time clock, if it runs in this PID namespace.
fn clock_program() -> Option<String> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let names = processes.filter_map(|entry| {
        let id = entry.file_name().into_string().ok()?.parse::<u32>().ok()?;
        std::fs::read_to_string(format!("/proc/{id}/comm")).ok()
    });
    let mut known = names.filter(|name| CLOCK_PROGRAMS.contains(&name.trim()));
    known.next().map(|name| name.trim().to_owned())
}

/// Returns facts about the agent and its host.
fn host() -> HostFacts {
    // Not from /proc, which a container may lack.
    let kernel = uname().map(|names| names.release().to_string_lossy().into_owned());
    let quality = clock_quality();
    let by = clock_program().map_or(String::new(), |program| format!(" by {program}"));
    let clock = match (quality.synchronized, quality.error) {
        (true, Some(error)) => {
            format!("synchronised{by}, which states an error of at most {} ms", error as f64 / 1e6)
        }
        (true, None) => format!("synchronised{by}, which states no bound of the error"),
        (false, _) => "not synchronised".into(),
    };
    HostFacts { program: program_name(), kernel: kernel.unwrap_or_default(), clock }
}

const USAGE: Usage = Usage {
    command: "serve",
    positional: "",
    about: "Serve controllers that have one of the keys that are allowed.",
    options: &[
        Opt {
            name: "--allow",
            value: "KEY|FILE",
            help: "a controller's key, or a file of keys; repeatable",
        },
        Opt { name: "--listen", value: "ADDRESS:PORT", help: "address and port (127.0.0.1:4861)" },
        Opt { name: "--key", value: "FILE", help: "this host's key (~/.config/perhop/agent.key)" },
        limits::OPTIONS[0],
        limits::OPTIONS[1],
        limits::OPTIONS[2],
        limits::OPTIONS[3],
        limits::OPTIONS[4],
        limits::OPTIONS[5],
        limits::OPTIONS[6],
        limits::OPTIONS[7],
        REAL_TIME,
        Opt {
            name: "--stamp",
            value: "ADDRESS:PORT",
            help: "answer STAMP and TWAMP Light packets there, too; repeatable",
        },
        CLOCK_OFFSET,
        CLOCK_DRIFT,
        CLOCK_STATED,
        Opt {
            name: "--iperf3",
            value: "ADDRESS:PORT",
            help: "answer iperf3's clients there, too; repeatable",
        },
        path::RESPONDER,
        Opt { name: "--records", value: "DIR", help: "folder for records of iperf3's tests" },
    ],
};

const REAL_TIME: Opt = Opt {
    name: "--real-time",
    value: "",
    help: "let threads of runs have real-time priority, if this user may",
};

const LISTEN: &str = "127.0.0.1:4861";

/// The command `perhop-agent serve`.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    match server(arguments) {
        // The servers of other protocols run as long as the agent.
        Ok((server, _others)) => {
            let at = server.address().map_or_else(|_| "?".into(), |address| address.to_string());
            println!("{} serves at {at}", program_name());
            println!("key: {}", server.public());
            server.run()
        }
        Err(code) => code,
    }
}

/// Servers of standard tools beside an agent.
type Others = (Vec<Reflector>, Option<iperf3::Server>);

fn server(arguments: &[String]) -> Result<(Server, Others), ExitCode> {
    let arguments = USAGE.read(arguments)?;
    clock_options(&arguments)?;
    let failed = |error: &dyn std::fmt::Display| {
        eprintln!("perhop-agent serve: {error}");
        ExitCode::FAILURE
    };
    let mut allowed = Vec::new();
    for text in arguments.all("--allow") {
        allowed.extend(PublicKey::read_argument(text).map_err(|error| failed(&error))?);
    }
    if allowed.is_empty() {
        return Err(wrong("serve", &ServeError::Nobody.to_string()));
    }
    let address =
        |text: &str| text.parse().map_err(|_| format!("expected an address such as {LISTEN}"));
    let listen = arguments.value("--listen", address)?;
    let listen = listen.unwrap_or_else(|| LISTEN.parse().expect("an address"));
    let limits = Limits::read(&arguments)?;
    let path = match arguments.last("--key") {
        Some(path) => Ok(path.into()),
        None => key::default_file(),
    };
    let identity = path.and_then(|path| key::open(&path)).map_err(|error| failed(&error))?;
    path::respond("serve", &arguments, &limits)?;
    let mut clients = iperf3::settings("serve", &arguments, "--iperf3", (&limits).into())?;
    let real_time = arguments.has(REAL_TIME.name);
    let frame_timeout = FRAME_TIMEOUT;
    let settings = Settings { identity, allowed, listen, limits, real_time, frame_timeout };
    let server = Server::new(settings).map_err(|error| failed(&error))?;
    clients.allowance = server.agent.allowance.clone();
    let reflectors = stamp::reflectors("serve", &arguments, "--stamp", &Default::default())?;
    let clients = (!clients.listen.is_empty()).then(|| iperf3::Server::start(clients));
    let clients = clients.transpose().map_err(|error| failed(&error))?;
    Ok((server, (reflectors, clients)))
}

#[cfg(test)]
mod tests;

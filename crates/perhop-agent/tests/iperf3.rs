//! Real clients of iperf3 against our server. Without the program `iperf3` they are left out;
//! where `CI` is set they fail instead.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use perhop_agent::iperf3::{Limits, Server, Settings};
use serde_json::Value;

/// Returns whether iperf3 is installed.
fn present() -> bool {
    let found = Command::new("iperf3").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "CI installs iperf3 (Debian: iperf3)");
    found
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perhop-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// The records, in the order in which their tests started.
    fn records(&self) -> Vec<Value> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.iter().all(|file| file.extension().is_some_and(|end| end == "json")));
        files.iter().map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn serve(at: &str, limits: Limits, records: Option<&Path>) -> (Server, SocketAddr) {
    let listen = vec![at.parse().unwrap()];
    let records = records.map(Path::to_owned);
    let server =
        Server::start(Settings { listen, limits, records, ..Settings::default() }).unwrap();
    let address = server.addresses()[0];
    (server, address)
}

fn client(server: SocketAddr, options: &str) -> Command {
    let mut command = Command::new("iperf3");
    command.args(["-c", &server.ip().to_string(), "-p", &server.port().to_string()]);
    command.args(options.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn done(output: &Output, options: &str) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{options}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{options}: {error}: {text}"))
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {value}"))
}

/// Compares what the client prints of a test with the server's record of it.
fn compare(options: &str, printed: &Value, record: &Value) {
    assert_eq!(record["complete"], true, "{options}: {record}");
    let omitted = number(record, "/omitted_s");
    let streams = record["streams"].as_array().unwrap();
    let udp = options.contains("-u");
    let printed_streams = printed["end"]["streams"].as_array().unwrap();
    assert_eq!(streams.len(), printed_streams.len(), "{options}");
    for (ours, theirs) in streams.iter().zip(printed_streams) {
        let from = |key| {
            let all = ours["intervals"].as_array().unwrap().iter();
            let counted = all.filter(|each| number(each, "/start_s") >= omitted - 1e-9);
            counted.filter_map(|each| each[key].as_u64()).sum::<u64>() as f64
        };
        let received = ours["received"] == true;
        if udp {
            let theirs = &theirs["udp"];
            let (lost, packets) = (number(theirs, "/lost_packets"), number(theirs, "/packets"));
            if received {
                assert_eq!(from("lost"), lost, "{options}: {theirs}");
                assert_eq!(from("packets") + lost, packets, "{options}: {theirs}");
                let arrived = ours["arrived"].as_array().unwrap();
                assert_eq!(arrived.len(), 1, "{options}");
                assert_eq!(arrived[0][0], ours["dscp_sent"], "{options}");
                assert_eq!(arrived[0][1], 0, "{options}");
            } else {
                assert!(packets > 0.0 && lost <= packets, "{options}: {theirs}");
            }
            let jitter = number(theirs, "/jitter_ms");
            assert!((0.0..50.0).contains(&jitter), "{options}: {jitter}");
        } else {
            let side = if received { "/receiver/bytes" } else { "/sender/bytes" };
            assert_eq!(from("bytes"), number(theirs, side), "{options}: {theirs}");
            if !received {
                let theirs = number(theirs, "/sender/retransmits");
                assert_eq!(from("retransmits"), theirs, "{options}");
            }
        }
    }
}

/// Every option, each in a test of its own, so many at a time.
fn matrix(at: &str, options: &[&str], together: usize) {
    let folder = Folder::new(&format!("iperf3-{together}-{}", options.len()));
    let (server, address) = serve(at, Limits::default(), Some(&folder.0));
    for group in options.chunks(together) {
        let children: Vec<_> = group
            .iter()
            .enumerate()
            .map(|(number, options)| {
                let options = format!("{options} --json -T {number}-{together}");
                (client(address, &options).spawn().unwrap(), options)
            })
            .collect();
        let before = if folder.0.exists() { folder.records().len() } else { 0 };
        let printed: Vec<(Value, String)> = children
            .into_iter()
            .map(|(child, options)| (done(&child.wait_with_output().unwrap(), &options), options))
            .collect();
        let patience = Instant::now() + Duration::from_secs(5);
        while server.tests() > 0 && Instant::now() < patience {
            thread::sleep(Duration::from_millis(5));
        }
        let records = folder.records();
        let new = &records[records.len() - group.len()..];
        assert!(before <= records.len() - group.len());
        for (number, (printed, options)) in printed.iter().enumerate() {
            let title = format!("{number}-{together}");
            let of_it = |record: &&Value| record["parameters"]["title"] == title.as_str();
            let record = new.iter().find(of_it).unwrap();
            compare(options, printed, record);
        }
    }
}

const OPTIONS: [&str; 16] = [
    "-t 1",
    "-t 1 -R",
    "-t 1 -P 3 --bidir -b 20M",
    "-u -b 20M -l 1000 -P 2 -t 1",
    "-u -b 20M -R -t 1 --udp-counters-64bit",
    "-u -b 5M --bidir -S 0xb8 -t 1",
    "-n 30M",
    "-k 100 -b 50M",
    "-u -n 1M -b 20M",
    "-t 2 -O 1 -w 100K -M 1000 -N -C cubic -b 100M",
    "-u -t 2 -O 1 -b 2M -l 500 -R --dscp ef",
    "-u -t 2 -O 1 -b 2M -l 500 --dscp af11 --get-server-output",
    "-t 1 -Z -b 100M",
    "-u -b 0 -t 1 -l 8000 -R",
    "-t 1 -R -b 30M -P 4 -l 2000",
    "-u -b 10M -t 1 --udp-counters-64bit -P 8 -l 200",
];

#[test]
fn every_option_of_real_clients_works() {
    if present() {
        matrix("127.0.0.1:0", &OPTIONS, 4);
    }
}

#[test]
fn eight_clients_of_one_address_are_served_at_once() {
    if present() {
        let options = ["-u -b 3M -l 700 -t 1", "-u -b 3M -R -l 700 -t 1", "-b 20M -t 1"];
        let options: Vec<&str> = options.into_iter().cycle().take(8).collect();
        matrix("[::1]:0", &options, 8);
    }
}

#[test]
fn the_clients_output_has_what_iperf3_does_not_say() {
    if !present() {
        return;
    }
    let (_server, address) = serve("127.0.0.1:0", Limits::default(), None);
    let options = "-u -b 2M -l 500 -t 1 --dscp ef --get-server-output --json";
    let printed = done(&client(address, options).output().unwrap(), options);
    let text = printed["server_output_text"].as_str().unwrap();
    let packets = number(&printed, "/end/sum/packets");
    assert!(text.contains(&format!("DSCP and ECN EF Not-ECT: {packets}\n")), "{text}");
}

#[test]
fn limits_end_tests_with_iperf3s_errors() {
    if !present() {
        return;
    }
    let limits = Limits {
        duration: Duration::from_secs(2),
        rate: Some(10_000_000),
        volume: Some(3_000_000),
        streams: 2,
        ..Limits::default()
    };
    let (_server, address) = serve("127.0.0.1:0", limits, None);
    let rate = "total required bandwidth is larger than server limit";
    for (options, expected) in [
        ("-t 3", "test duration"),
        ("-t 1 -P 3", "number of parallel streams"),
        ("-t 1 -u -b 11M", rate),
        ("-t 1 -u -b 0 -R", rate),
        ("-n 4M", rate),
        ("-t 2 -P 2 --bidir", rate),
    ] {
        let output = client(address, options).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(expected), "{options}: {text}");
    }
    // TCP is slowed down to the limit.
    for options in ["-t 1 --json", "-t 1 -R --json"] {
        let printed = done(&client(address, options).output().unwrap(), options);
        let rate = number(&printed, "/end/sum_received/bits_per_second");
        assert!((4e6..12e6).contains(&rate), "{options}: {rate}");
    }
}

#[test]
fn one_test_too_many_is_denied() {
    if !present() {
        return;
    }
    let (_server, address) = serve("127.0.0.1:0", Limits { tests: 1, ..Limits::default() }, None);
    let mut first = client(address, "-t 2 -b 1M").spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    let output = client(address, "-t 1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("server is busy"), "{text}");
    assert!(first.wait().unwrap().success());
}

const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz2345672345\0";

/// A client of our own that asks for a test and says what it likes.
fn begin(address: SocketAddr, parameters: &str) -> TcpStream {
    let mut control = TcpStream::connect(address).unwrap();
    control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    control.write_all(COOKIE).unwrap();
    assert_eq!(byte(&mut control), 9);
    control.write_all(&(parameters.len() as u32).to_be_bytes()).unwrap();
    control.write_all(parameters.as_bytes()).unwrap();
    control
}

/// Waits until a server has no test.
fn ended(server: &Server, within: Duration) {
    let end = Instant::now() + within;
    while server.tests() > 0 {
        assert!(Instant::now() < end, "a test goes on without its client");
        thread::sleep(Duration::from_millis(5));
    }
}

fn byte(control: &mut TcpStream) -> i8 {
    let mut byte = [0];
    control.read_exact(&mut byte).unwrap();
    byte[0] as i8
}

const REVERSE: &str =
    r#"{"udp":true,"time":10,"parallel":1,"reverse":true,"len":100,"bandwidth":1000000}"#;

#[test]
fn datagrams_go_only_to_who_asked_and_end_with_the_control_connection() {
    let (server, address) = serve("0.0.0.0:0", Limits::default(), None);
    let address = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), address.port());
    let mut control = begin(address, REVERSE);
    assert_eq!(byte(&mut control), 10);
    // Another address than that of the control connection proves nothing.
    let other = UdpSocket::bind("127.0.0.2:0").unwrap();
    other.connect(address).unwrap();
    other.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    other.send(b"9876").unwrap();
    assert!(other.recv(&mut [0; 200]).is_err());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    // Nor does anything but the handshake.
    socket.send(b"hello, this is not it").unwrap();
    socket.send(b"9876").unwrap();
    let mut room = [0; 200];
    assert_eq!(socket.recv(&mut room).unwrap(), 4);
    assert_eq!(&room[..4], b"6789");
    assert_eq!((byte(&mut control), byte(&mut control)), (1, 2));
    assert_eq!(socket.recv(&mut room).unwrap(), 100);
    // A second stream was not asked for.
    other.send(b"9876").unwrap();
    assert!(other.recv(&mut room).is_err());
    drop(control);
    ended(&server, Duration::from_secs(1));
    let end = Instant::now() + Duration::from_secs(1);
    while socket.recv(&mut room).is_ok() {
        assert!(Instant::now() < end, "datagrams go on");
    }
}

#[test]
fn hostile_clients_are_refused_and_others_are_served() {
    let (server, address) = serve("127.0.0.1:0", Limits::default(), None);
    let error = |control: &mut TcpStream, code: i32| {
        let mut bytes = [0; 9];
        control.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[0] as i8, -2);
        assert_eq!(bytes[1..5], code.to_be_bytes());
        // The next client has the same cookie, which until then belongs to this test.
        ended(&server, Duration::from_secs(3));
    };
    error(&mut begin(address, "{"), 114);
    error(&mut begin(address, "[[[[[[[["), 114);
    error(&mut begin(address, r#"{"tcp":true,"parallel":1e18,"time":1}"#), 6);
    error(&mut begin(address, r#"{"tcp":true,"time":-3}"#), 5);
    let mut long = TcpStream::connect(address).unwrap();
    long.write_all(COOKIE).unwrap();
    assert_eq!(byte(&mut long), 9);
    long.write_all(&[0xff; 4]).unwrap();
    error(&mut long, 114);
    // Connections that say nothing make room for others, and one that guesses a cookie gets
    // nothing of the test.
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut control = begin(address, r#"{"tcp":true,"time":5,"parallel":1}"#);
    assert_eq!(byte(&mut control), 10);
    let mut wrong = TcpStream::connect(address).unwrap();
    wrong.write_all(&[b'x'; 37]).unwrap();
    assert_eq!(byte(&mut wrong), 9, "it is a new client");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(COOKIE).unwrap();
    assert_eq!((byte(&mut control), byte(&mut control)), (1, 2));
    let mut third = TcpStream::connect(address).unwrap();
    third.write_all(COOKIE).unwrap();
    assert_eq!(byte(&mut third), -1, "a stream too many");
    drop((silent, wrong));
    control.write_all(&[99]).unwrap();
    error(&mut control, 110);
}

#[test]
fn data_ends_when_the_client_ends_the_test() {
    let (_server, address) = serve("127.0.0.1:0", Limits::default(), None);
    let mut control = begin(address, r#"{"tcp":true,"time":5,"parallel":1,"reverse":true}"#);
    assert_eq!(byte(&mut control), 10);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(COOKIE).unwrap();
    assert_eq!((byte(&mut control), byte(&mut control)), (1, 2));
    stream.read_exact(&mut [0; 100_000]).unwrap();
    control.write_all(&[4]).unwrap();
    // A client that waits for the rest of a block hears of the end, and goes on.
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(byte(&mut control), 13);
}

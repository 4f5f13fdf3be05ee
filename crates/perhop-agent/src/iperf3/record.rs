//! Records of tests: the server's measurements of a test, as one JSON file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;

use super::message::{Parameters, StreamResult};

/// Version of the format of records, which increases when keys change.
pub const FORMAT: u32 = 2;

/// Measurements of a test at the server. Times are in seconds from the start of the test; sizes are
/// bytes of payload. A null number was not measured.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// The version of perhop.
    pub perhop: &'static str,
    /// Start of the test, in milliseconds of Unix time.
    pub started_unix_ms: u64,
    /// The client's end of the control connection.
    pub client: String,
    /// The server's end of the control connection.
    pub server: String,
    /// Parameters that the client requested.
    pub parameters: Parameters,
    /// Bytes of a block or datagram.
    pub length: usize,
    /// Reason for the end of the test.
    pub ended: String,
    /// True if the test ended as its client intended.
    pub complete: bool,
    /// Time at the start that the client's results omit, in seconds.
    pub omitted_s: f64,
    /// Duration of the test in seconds, omitted ones included.
    pub duration_s: f64,
    /// True if both ends read the same clock, so that one-way delays are absolute.
    pub same_clock: bool,
    /// Measurements of the streams.
    pub streams: Vec<StreamRecord>,
}

/// Measurements of a stream at the server, omitted seconds included.
#[derive(Clone, Debug, Serialize)]
pub struct StreamRecord {
    /// Number of the stream in iperf3.
    pub id: u32,
    /// True if the server received the data, false if it sent them.
    pub received: bool,
    /// Address and port of the client.
    pub client: String,
    /// DSCP that the client requested.
    pub dscp_sent: u8,
    /// For received packets: DSCP, ECN field (0: Not-ECT, 1: ECT(1), 2: ECT(0), 3: CE) and number
    /// of packets that arrived with them. Null if not observed.
    pub arrived: Option<Vec<(u8, u8, u64)>>,
    /// Sums over the intervals.
    pub total: Counts,
    /// For received UDP: malformed datagrams, which no other counter includes.
    pub malformed: Option<u64>,
    /// For received UDP: the least one-way delay in seconds, if both ends read the same clock.
    pub delay_minimum_s: Option<f64>,
    /// Intervals of a second, or longer ones in long tests.
    pub intervals: Vec<Interval>,
    /// Result that the client reported.
    pub client_result: Option<StreamResult>,
}

/// Counters. A received datagram counts once, even if it arrives several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Bytes that were received, or handed to the kernel.
    pub bytes: u64,
    /// Data packets received or sent, if the kernel reports them.
    pub packets: u64,
    /// For received UDP: datagrams that never arrived, including the last ones if the client
    /// reported the number that it sent.
    pub lost: Option<u64>,
    /// For received UDP: datagrams that arrived after one with a higher number (RFC 4737).
    pub reordered: Option<u64>,
    /// For received UDP: duplicates.
    pub duplicates: Option<u64>,
    /// Packets that arrived with congestion experienced.
    pub marked: Option<u64>,
    /// For sent TCP: retransmitted segments.
    pub retransmits: Option<u64>,
}

/// Counters and measurements of an interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Interval {
    /// Start of the interval.
    pub start_s: f64,
    /// End of the interval.
    pub end_s: f64,
    /// Counters.
    #[serde(flatten)]
    pub counts: Counts,
    /// For sent TCP: the smoothed round-trip time at its end, in seconds.
    pub srtt_s: Option<f64>,
    /// For sent TCP: the congestion window at its end, in bytes.
    pub cwnd: Option<u64>,
    /// For received UDP: the jitter at its end (RFC 3550), in seconds.
    pub jitter_s: Option<f64>,
    /// For received UDP: packet delay variation (RFC 5481, section 4.2), the one-way delay minus
    /// the least one of the stream: minimum, mean and maximum, in seconds.
    pub variation_s: Option<[f64; 3]>,
    /// Number of datagrams with a measured delay.
    pub samples: u64,
}

/// Folder of records.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    files: AtomicUsize,
    most: usize,
    serial: AtomicU64,
}

impl Folder {
    /// Opens a folder, which is created if missing.
    pub fn open(path: &Path, most: usize) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let files = AtomicUsize::new(fs::read_dir(path)?.count());
        Ok(Self { path: path.to_owned(), files, most, serial: AtomicU64::new(0) })
    }

    /// Writes a record into a new file, completely or not at all.
    pub fn write(&self, record: &Record) -> io::Result<PathBuf> {
        if self.files.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.files.fetch_sub(1, Ordering::Relaxed);
            let message = format!("the folder already holds {} files", self.most);
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let (process, started) = (std::process::id(), record.started_unix_ms);
        let name = format!("iperf3-{started}-{process}-{serial}.json");
        let (path, draft) = (self.path.join(&name), self.path.join(format!(".{name}.part")));
        let text = serde_json::to_vec(record)?;
        // A new file: another user of the folder could have placed a link there.
        let written = File::create_new(&draft)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            self.files.fetch_sub(1, Ordering::Relaxed);
            return Err(error);
        }
        Ok(path)
    }
}

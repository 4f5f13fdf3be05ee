//! Records of tests: what the server measured of each, as one JSON file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;

use super::message::{Parameters, StreamResult};

/// The number of the form of records. It counts up when the keys change.
pub const FORMAT: u32 = 1;

/// What a server measured of a test. Times are seconds from the start of the test; sizes are bytes
/// of payload. An absent (`null`) number was not measured.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of perhop.
    pub perhop: &'static str,
    /// When the test started, in milliseconds of Unix time.
    pub started_unix_ms: u64,
    /// The client's end of the control connection.
    pub client: String,
    /// The server's end of it.
    pub server: String,
    /// The parameters that the client asked for.
    pub parameters: Parameters,
    /// Bytes of a block or datagram.
    pub length: usize,
    /// How the test ended.
    pub ended: String,
    /// Whether it ended as its client meant it to.
    pub complete: bool,
    /// Seconds at the start that the client's results leave out.
    pub omitted_s: f64,
    /// Seconds that the test took, omitted ones included.
    pub duration_s: f64,
    /// Whether both ends read the same clock, so that one-way delays are absolute.
    pub same_clock: bool,
    /// Its streams.
    pub streams: Vec<StreamRecord>,
}

/// What a server measured of a stream, omitted seconds included.
#[derive(Clone, Debug, Serialize)]
pub struct StreamRecord {
    /// iperf3's number of it.
    pub id: u32,
    /// Whether the server received its data; otherwise it sent them.
    pub received: bool,
    /// Address and port of the client's end.
    pub client: String,
    /// The DSCP that the client asked for.
    pub dscp_sent: u8,
    /// Of received packets: how many arrived with which DSCP. Null if nobody could see that.
    pub dscp_arrived: Option<Vec<(u8, u64)>>,
    /// Of received packets: how many arrived with each ECN field: not-ECT, ECT(1), ECT(0), CE.
    pub ecn_arrived: Option<[u64; 4]>,
    /// The sums over the intervals.
    pub total: Counts,
    /// Of received UDP: malformed datagrams, which count for nothing else.
    pub malformed: Option<u64>,
    /// Of received UDP: the least one-way delay in seconds, if both ends read the same clock.
    pub delay_minimum_s: Option<f64>,
    /// Intervals of a second, or longer ones of long tests.
    pub intervals: Vec<Interval>,
    /// What the client reported of its end.
    pub client_result: Option<StreamResult>,
}

/// What was counted. Datagrams that were received count once however often they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Bytes received, or handed to the kernel.
    pub bytes: u64,
    /// Data packets received or sent, if the kernel tells.
    pub packets: u64,
    /// Of received UDP: datagrams that never arrived. The last ones are included as far as the
    /// client said how many it sent.
    pub lost: Option<u64>,
    /// Of received UDP: datagrams that arrived after one with a higher number (RFC 4737).
    pub reordered: Option<u64>,
    /// Of received UDP: second and further copies.
    pub duplicates: Option<u64>,
    /// Packets that arrived with congestion experienced.
    pub marked: Option<u64>,
    /// Of sent TCP: segments sent again.
    pub retransmits: Option<u64>,
}

/// What was counted and measured between two instants.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Interval {
    /// When it begins.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// Of sent TCP: the smoothed round-trip time at its end, in seconds.
    pub srtt_s: Option<f64>,
    /// Of sent TCP: the congestion window at its end, in bytes.
    pub cwnd: Option<u64>,
    /// Of received UDP: the jitter at its end (RFC 3550), in seconds.
    pub jitter_s: Option<f64>,
    /// Of received UDP: by how much the one-way delay exceeded the least one of the stream (packet
    /// delay variation, RFC 5481, section 4.2): least, mean and most, in seconds.
    pub variation_s: Option<[f64; 3]>,
    /// How many datagrams that was measured of.
    pub samples: u64,
}

/// A folder of records.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    files: AtomicUsize,
    most: usize,
    serial: AtomicU64,
}

impl Folder {
    /// Makes the folder if there is none.
    pub fn open(path: &Path, most: usize) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let files = AtomicUsize::new(fs::read_dir(path)?.count());
        Ok(Self { path: path.to_owned(), files, most, serial: AtomicU64::new(0) })
    }

    /// Writes a record into a file of its own, completely or not at all.
    pub fn write(&self, record: &Record) -> io::Result<PathBuf> {
        if self.files.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.files.fetch_sub(1, Ordering::Relaxed);
            let message = format!("the folder holds {} files already", self.most);
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let (process, started) = (std::process::id(), record.started_unix_ms);
        let name = format!("iperf3-{started}-{process}-{serial}.json");
        let (path, draft) = (self.path.join(&name), self.path.join(format!(".{name}.part")));
        let text = serde_json::to_vec(record)?;
        let written = File::create(&draft)
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

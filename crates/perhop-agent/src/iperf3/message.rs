//! The messages of iperf3's control connection: states, parameters and results.
//!
//! The protocol has no specification; the formats are those that iperf 3.12 sends and accepts.
//! Unknown keys are ignored, because new versions of iperf3 add keys.

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Size of a cookie in bytes: 36 characters and a NUL.
pub(crate) const COOKIE: usize = 37;

/// Secret that identifies the connections of a client.
pub(crate) type Cookie = [u8; COOKIE];

/// Maximum size of parameters in bytes, beyond those that iperf3 sends.
pub(crate) const MAX_PARAMETERS: usize = 8 << 10;
/// Maximum size of results in bytes; those of 256 streams have less than a quarter of it.
pub(crate) const MAX_RESULTS: usize = 256 << 10;

/// States that both ends announce, each by a signed byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParameterExchange = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl State {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParameterExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::Done,
        Self::AccessDenied,
        Self::ServerError,
    ];

    /// Returns the state of a byte.
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// Returns the byte of the state.
    pub fn byte(self) -> u8 {
        self as i8 as u8
    }
}

/// The parameters of a test, as the client sends them. A negative number counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parameters {
    /// True if the test uses TCP.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub tcp: bool,
    /// True if the test uses UDP.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub udp: bool,
    /// True if the test uses SCTP, which perhop does not support.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub sctp: bool,
    /// Omitted time at the start, in seconds.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub omit: Option<u64>,
    /// Duration of the test in seconds; 0 if bytes or blocks end it.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// Bytes after which the test ends.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub num: Option<u64>,
    /// Blocks after which the test ends.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub blockcount: Option<u64>,
    /// The maximum segment size in bytes.
    #[serde(rename = "MSS", deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub mss: Option<u64>,
    /// True if TCP sends small segments at once (`TCP_NODELAY`).
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub nodelay: bool,
    /// The number of streams in each direction.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u64>,
    /// True if the server sends.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub reverse: bool,
    /// True if both ends send.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub bidirectional: bool,
    /// The size of socket buffers in bytes.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The length of a block or datagram in bytes.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// The rate of a stream in bit/s; 0 for no limit.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// The type of service or traffic class octet.
    #[serde(rename = "TOS", deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub tos: Option<u64>,
    /// The client's title of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The congestion control of TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// True if the client wants the server's output.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub get_server_output: bool,
    /// True if sequence numbers of datagrams have 64 bits.
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_false")]
    pub udp_counters_64bit: bool,
    /// The version of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
}

/// Results of a test at one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// CPU time of the test as a share of one CPU, in percent.
    pub cpu_util_total: f64,
    /// The share in user mode.
    pub cpu_util_user: f64,
    /// The share in the kernel.
    pub cpu_util_system: f64,
    /// 1 if the sender counts retransmissions, 0 or absent if not.
    #[serde(default, deserialize_with = "count", serialize_with = "or_minus_one")]
    pub sender_has_retransmits: Option<u64>,
    /// The congestion control that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_used: Option<String>,
    /// Output of the server, for `--get-server-output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_output_text: Option<String>,
    /// Results of the streams.
    pub streams: Vec<StreamResult>,
}

impl Results {
    /// Returns the result of a stream.
    pub(crate) fn of(&self, id: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|each| each.id == id)
    }
}

/// Result of a stream at one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Number of the stream: 1, 3, 4, 5 and so on.
    pub id: u32,
    /// Bytes that the end sent or received, without those of the omitted seconds.
    #[serde(deserialize_with = "count", serialize_with = "or_minus_one")]
    pub bytes: Option<u64>,
    /// Retransmitted segments, if the end sends and counts them.
    #[serde(deserialize_with = "count", serialize_with = "or_minus_one")]
    pub retransmits: Option<u64>,
    /// For received UDP: the jitter in seconds (RFC 1889, appendix A.8).
    pub jitter: f64,
    /// For received UDP: lost datagrams.
    #[serde(deserialize_with = "count", serialize_with = "or_minus_one")]
    pub errors: Option<u64>,
    /// Those of them in the omitted seconds.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub omitted_errors: Option<u64>,
    /// For UDP: datagrams sent.
    #[serde(deserialize_with = "count", serialize_with = "or_minus_one")]
    pub packets: Option<u64>,
    /// Those of them in the omitted seconds.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub omitted_packets: Option<u64>,
    /// Seconds, in practice 0.
    #[serde(default)]
    pub start_time: f64,
    /// Seconds after the start.
    #[serde(default)]
    pub end_time: f64,
}

/// Returns the number of the stream that was created as number `place`, from 0.
pub(crate) fn stream_id(place: usize) -> u32 {
    if place == 0 { 1 } else { place as u32 + 2 }
}

/// Returns a message in JSON after its length, as on the control connection.
pub(crate) fn frame(message: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(message).expect("numbers and strings are JSON");
    let mut frame = (text.len() as u32).to_be_bytes().to_vec();
    frame.extend(text);
    frame
}

/// Returns `SERVER_ERROR` with an error code of iperf3 and an `errno`.
pub(crate) fn server_error(code: i32, errno: i32) -> Vec<u8> {
    let mut bytes = vec![State::ServerError.byte()];
    bytes.extend(code.to_be_bytes());
    bytes.extend(errno.to_be_bytes());
    bytes
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Writes an absent number as iperf3 does, as -1.
fn or_minus_one<S: Serializer>(number: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => out.serialize_u64(*number),
        None => out.serialize_i64(-1),
    }
}

/// Reads a number; negative ones are absent. iperf 3.12 writes -1 as 18446744073709551615, and
/// cJSON writes large numbers in floating point.
fn count<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    struct Count;

    impl Visitor<'_> for Count {
        type Value = Option<u64>;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a number")
        }

        fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
            Ok(Some(value.into()))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
            Ok(Some(value).filter(|&value| value <= i64::MAX as u64))
        }

        fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
            Ok(u64::try_from(value).ok())
        }

        fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
            let fits = (0.0..i64::MAX as f64).contains(&value);
            Ok(fits.then_some(value as u64))
        }
    }

    input.deserialize_any(Count)
}

/// Reads a flag, which iperf3 writes as true or as a number.
fn flag<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    count(input).map(|number| number.is_some_and(|number| number > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf_3_12_sends_is_read() {
        let text = r#"{"udp":true,"omit":1,"time":3,"num":0,"blockcount":0,"parallel":2,
            "bidirectional":true,"len":1000,"bandwidth":10000000,"pacing_timer":1000,"TOS":184,
            "get_server_output":1,"client_version":"3.12"}"#;
        let read: Parameters = serde_json::from_str(text).unwrap();
        assert!(read.udp && read.bidirectional && read.get_server_output && !read.tcp);
        assert_eq!((read.tos, read.bandwidth), (Some(184), Some(10_000_000)));
        let again: Parameters = serde_json::from_slice(&frame(&read)[4..]).unwrap();
        assert_eq!(again, read);
    }

    #[test]
    fn minus_one_is_absent_however_it_is_written() {
        for number in ["-1", "18446744073709551615", "1.8446744073709552e+19", "-1e300"] {
            let text = format!(
                r#"{{"id":1,"bytes":2e3,"retransmits":{number},"jitter":0,"errors":0,"packets":7}}"#
            );
            let read: StreamResult = serde_json::from_str(&text).unwrap();
            assert_eq!((read.bytes, read.retransmits, read.packets), (Some(2000), None, Some(7)));
            let written = serde_json::to_string(&read).unwrap();
            assert!(written.contains(r#""retransmits":-1"#), "{written}");
        }
    }
}

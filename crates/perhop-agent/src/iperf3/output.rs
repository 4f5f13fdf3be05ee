//! The text for `--get-server-output`.

use std::fmt::Write;
use std::net::SocketAddr;

use super::message::StreamResult;
use super::stream::Stream;
use crate::stamp::ecn_name;

/// Returns the server's output for a test: iperf3's summary, and the further measurements of
/// perhop.
pub(crate) fn text(client: SocketAddr, streams: &[Stream], results: &[StreamResult]) -> String {
    let mut text = format!("perhop {}, test of {client}\n", env!("CARGO_PKG_VERSION"));
    for (stream, result) in streams.iter().zip(results) {
        let (bytes, seconds) = (result.bytes.unwrap_or(0), result.end_time);
        let rate = bytes as f64 * 8.0 / seconds.max(1e-9) / 1e6;
        let role = if stream.sends { "sender" } else { "receiver" };
        let _ = write!(
            text,
            "[{:3}] 0.00-{seconds:.2} sec  {bytes} bytes  {rate:.3} Mbits/sec  {role}",
            result.id
        );
        if let Some(retransmits) = result.retransmits {
            let _ = write!(text, "  {retransmits} retransmits");
        }
        if let Some(meter) = &stream.meter {
            let counts = stream.counts(result.packets);
            let _ = write!(
                text,
                "  jitter {:.3} ms  lost {}/{}  reordered {}  duplicates {}  DSCP and ECN",
                result.jitter * 1e3,
                counts.lost.unwrap_or(0),
                counts.packets + counts.lost.unwrap_or(0),
                counts.reordered.unwrap_or(0),
                counts.duplicates.unwrap_or(0),
            );
            for (class, packets) in meter.arrived().counts() {
                let (dscp, ecn) = (class.dscp().name(), ecn_name(class.ecn() as u8));
                let _ = write!(text, " {dscp} {ecn}: {packets}");
            }
        }
        text.push('\n');
    }
    text
}

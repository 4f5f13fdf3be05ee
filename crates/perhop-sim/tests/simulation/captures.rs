//! Captures as files: their blocks and content, their cost, and failures of a sink.

use std::io;
use std::sync::{Arc, Mutex};

use perhop_core::Time;
use perhop_measure::{CapturePlan, Sink};
use perhop_sim::{BuildError, Simulation};
use serde_json::{Value, json};

use crate::lab::*;

/// A sink that keeps up to a number of bytes.
#[derive(Clone)]
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Kept {
    fn new(room: usize) -> Self {
        Self { bytes: Arc::default(), room }
    }
}

impl Sink for Kept {
    fn take(&mut self, blocks: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap();
        if bytes.len() + blocks.len() > self.room {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        bytes.extend(blocks);
        Ok(())
    }
}

/// Returns the directed link of a port in a row of nodes.
fn name(port: &u32) -> String {
    let link = port / 2;
    format!("{link}-{}{}", link + 1, if port % 2 == 1 { " back" } else { "" })
}

fn capture_plan(ports: &[u32], snaplen: u32) -> CapturePlan {
    let interface = |port| json!({"name": name(port), "description": "it", "speed": 1});
    let interfaces: Vec<Value> = ports.iter().map(interface).collect();
    let plan = json!({
        "snaplen": snaplen, "application": "the test", "comment": "Käse", "interfaces": interfaces,
    });
    serde_json::from_value(plan).unwrap()
}

/// Begins a capture without a limit.
fn tap(simulation: &mut Simulation, ports: &[u32], snaplen: u32) -> Kept {
    let kept = Kept::new(usize::MAX);
    simulation.capture(&capture_plan(ports, snaplen), Box::new(kept.clone())).unwrap();
    kept
}

/// A block's type and body.
type Block = (u32, Vec<u8>);

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns the blocks of a file, each of whole words and with its length at both ends.
fn blocks(mut file: &[u8]) -> Vec<Block> {
    let mut found = Vec::new();
    while !file.is_empty() {
        let length = long(file, 4) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(long(file, length - 4) as usize, length);
        found.push((long(file, 0), file[8..length - 4].to_vec()));
        file = &file[length..];
    }
    found
}

/// Returns options by code; they end with the end-of-options option, and no bytes follow.
fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        let code = u16::from_le_bytes([bytes[0], bytes[1]]);
        let length = usize::from(u16::from_le_bytes([bytes[2], bytes[3]]));
        let padded = length.next_multiple_of(4);
        assert!(bytes[4 + length..4 + padded].iter().all(|&byte| byte == 0));
        if code == 0 {
            assert_eq!((length, bytes.len()), (0, 4));
            return found;
        }
        found.push((code, bytes[4..4 + length].to_vec()));
        bytes = &bytes[4 + padded..];
    }
}

/// A packet in a file: its interface, its time in ns, its length, its captured bytes, its
/// direction.
type Entry = (u32, u64, u32, Vec<u8>, u32);

fn packets(file: &[u8]) -> Vec<Entry> {
    let packet = |(kind, body): &Block| {
        assert_eq!(*kind, 6);
        let time = u64::from(long(body, 4)) << 32 | u64::from(long(body, 8));
        let kept = long(body, 12) as usize;
        let rest = &body[20 + kept.next_multiple_of(4)..];
        let flags = match &options(rest)[..] {
            [(2, flags)] => long(flags, 0),
            others => panic!("{others:?}"),
        };
        (long(body, 0), time, long(body, 16), body[20..20 + kept].to_vec(), flags)
    };
    let blocks = blocks(file);
    let first = blocks.iter().position(|(kind, _)| *kind == 6).unwrap_or(blocks.len());
    blocks[first..].iter().map(packet).collect()
}

#[test]
fn a_file_begins_with_its_section_and_its_interfaces() {
    let mut simulation = build(&everything(1, &[SECOND])).unwrap();
    let kept = tap(&mut simulation, &[2, 5], 96);
    simulation.advance(Time::ZERO);
    let file = kept.bytes.lock().unwrap();
    let blocks = blocks(&file);
    let (kind, section) = &blocks[0];
    assert_eq!(*kind, 0x0a0d_0d0a);
    assert_eq!((long(section, 0), long(section, 4)), (0x1a2b_3c4d, 1));
    assert_eq!(section[8..16], [0xff; 8]);
    let said = [(4, b"the test".to_vec()), (1, "Käse".into())];
    assert_eq!(options(&section[16..]), said);
    for ((kind, interface), port) in blocks[1..3].iter().zip([2, 5]) {
        assert_eq!((*kind, long(interface, 0), long(interface, 4)), (1, 101, 96));
        let options = options(&interface[8..]);
        assert_eq!(options[0], (2, name(&port).into_bytes()));
        assert_eq!(options[1], (3, b"it".to_vec()));
        assert_eq!(options[2], (8, 1_u64.to_le_bytes().to_vec()));
        assert_eq!(options[3], (9, vec![9]), "not in nanoseconds");
        assert_eq!(options.len(), 4);
    }
}

/// A capture does not depend on slices, and does not change the results.
#[test]
fn captures_do_not_depend_on_slices_nor_results_on_captures() {
    let plan = everything(3, &every(SECOND / 2, 4 * SECOND));
    let captured = |slices: u64, ports: &[u32]| {
        let mut simulation = build(&plan).unwrap();
        let kept = tap(&mut simulation, ports, 64);
        for slice in 1..=slices {
            simulation.advance(Time::from_picos(4 * SECOND / slices * slice));
        }
        simulation.advance(Time::MAX);
        let file = kept.bytes.lock().unwrap().clone();
        (file, Results::of(&simulation).bits(), simulation.events())
    };
    let whole = captured(1, &[2, 3]);
    assert!(whole.0.len() > 100_000);
    assert_eq!(whole, captured(7, &[2, 3]));
    let mut without = build(&plan).unwrap();
    without.advance(Time::MAX);
    assert_eq!(Results::of(&without).bits(), whole.1);
    assert_eq!(without.events(), whole.2);
}

/// At both ends of a link, a capture agrees with the link's counters of packets sent and received.
#[test]
fn a_capture_has_every_packet() {
    let plan = everything(2, &[4 * SECOND]);
    let mut simulation = build(&plan).unwrap();
    let all: Vec<u32> = (0..6).collect();
    let kept = tap(&mut simulation, &all, 0);
    simulation.advance(Time::MAX);
    let results = Results::of(&simulation);
    let entries = packets(&kept.bytes.lock().unwrap());
    assert!(entries.is_sorted_by_key(|entry| entry.1));
    let count = |port: u32, flags| {
        entries.iter().filter(|entry| entry.0 == port && entry.4 == flags).count() as u64
    };
    for port in 0..6 {
        let sent = results.port(port as usize, "sent_packets");
        let lost = results.port(port as usize, "lost_packets");
        assert_eq!(count(port, 2), sent, "sent by port {port}");
        let under_way = sent - lost - count(port ^ 1, 1);
        assert!(under_way < 100, "{under_way} packets of port {port} have not arrived");
    }
    // Whole packets, each with the stated length.
    for (_, _, length, bytes, _) in &entries {
        assert_eq!(bytes.len(), *length as usize);
        assert_eq!(u32::from(u16::from_be_bytes([bytes[2], bytes[3]])), *length);
    }
}

/// A packet has the same bytes at every interface, except for fields that routers change.
#[test]
fn a_packet_is_the_same_everywhere() {
    let mut simulation = build(&everything(2, &[SECOND])).unwrap();
    let kept = [tap(&mut simulation, &[0], 64), tap(&mut simulation, &[5], 64)];
    simulation.advance(Time::MAX);
    let [sent, arrived] = kept.map(|kept| packets(&kept.bytes.lock().unwrap()));
    let unmarked = |entry: &Entry| {
        let mut bytes = entry.3.clone();
        // DSCP, time to live, and the checksum that covers them.
        [1, 8, 10, 11].iter().for_each(|&place| bytes[place] = 0);
        bytes
    };
    let sent: Vec<_> = sent.iter().filter(|entry| entry.4 == 2).map(unmarked).collect();
    let arrived: Vec<_> = arrived.iter().filter(|entry| entry.4 == 1).map(unmarked).collect();
    assert!(arrived.len() > 200);
    assert!(arrived.iter().all(|packet| sent.contains(packet)));
}

#[test]
fn a_snapshot_keeps_no_more_than_it_says() {
    let mut simulation = build(&everything(2, &[SECOND])).unwrap();
    let kept = [0, 1, 20, 128, 65_535].map(|snaplen| tap(&mut simulation, &[2], snaplen));
    simulation.advance(Time::MAX);
    let [whole, rest @ ..] = kept.map(|kept| packets(&kept.bytes.lock().unwrap()));
    for (entries, snaplen) in rest.iter().zip([1, 20, 128, 65_535]) {
        assert_eq!(entries.len(), whole.len());
        for (entry, whole) in entries.iter().zip(&whole) {
            assert_eq!(entry.2, whole.2);
            assert_eq!(entry.3, whole.3[..whole.3.len().min(snaplen)]);
        }
    }
}

/// Whole blocks that fit are kept; the run and other captures continue.
#[test]
fn a_sink_that_fails_ends_its_capture_alone() {
    let plan = everything(1, &[4 * SECOND]);
    let mut simulation = build(&plan).unwrap();
    let full = Kept::new(200_000);
    simulation.capture(&capture_plan(&[2], 0), Box::new(full.clone())).unwrap();
    let other = tap(&mut simulation, &[2], 0);
    simulation.advance(Time::MAX);
    let failure = simulation.take_capture_failure().expect("the sink was full");
    assert_eq!(failure.kind(), io::ErrorKind::StorageFull);
    assert!(simulation.take_capture_failure().is_none(), "reported twice");
    assert_eq!(Results::of(&simulation).bits(), run(&plan).bits());
    let (full, other) = (full.bytes.lock().unwrap(), other.bytes.lock().unwrap());
    assert!(full.len() > 100_000 && other.len() > 200_000);
    assert!(other.starts_with(&full));
    blocks(&full);
}

#[test]
fn a_port_that_there_is_not_is_refused() {
    let mut simulation = build(&everything(1, &[SECOND])).unwrap();
    let refused = simulation.capture(&capture_plan(&[0, 6], 0), Box::new(Kept::new(0)));
    assert_eq!(refused, Err(BuildError::UnknownLink("3-4".into())));
}

//! Captures: packets that pass an interface, in a file for packet analysers.
//!
//! A capture has the packets that a tap at a node's interface would see: sent packets when their
//! transmission begins, after every queue and policer, and received packets when they have arrived.

mod pcapng;

use std::fmt;
use std::io;

use perhop_core::Time;
use perhop_net::{Passage, PortId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capture file, and the interfaces that it captures at.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CapturePlan {
    /// Bytes kept of each packet; zero keeps the whole packet.
    pub snaplen: u32,
    /// Name of the application that writes the file.
    pub application: String,
    /// Comment on the file.
    pub comment: String,
    /// Interfaces.
    pub interfaces: Vec<InterfacePlan>,
}

/// An interface: a node's end of a link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InterfacePlan {
    /// Name of the directed link into which the node sends, and of the interface in the file.
    pub name: String,
    /// Description of the interface.
    pub description: String,
    /// Rate of the link, in bits per second.
    pub speed: u64,
}

/// Destination of a capture's bytes.
pub trait Sink: Send + Sync {
    /// Takes whole blocks of a file: all of them or, on failure, none.
    ///
    /// # Errors
    /// The cause of the failure, which ends the capture.
    fn take(&mut self, blocks: &[u8]) -> io::Result<()>;
}

/// Sink of a file that has ended.
struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _blocks: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Number of bytes that are collected before the sink takes them.
const BATCH: usize = 1 << 16;

/// A file that is being written.
struct File {
    sink: Box<dyn Sink>,
    snaplen: u32,
    /// Whole blocks that the sink has not taken yet.
    waiting: Vec<u8>,
    ended: bool,
}

impl File {
    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() || self.ended {
            return Ok(());
        }
        let taken = self.sink.take(&self.waiting);
        self.waiting.clear();
        self.ended = taken.is_err();
        taken
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("snaplen", &self.snaplen).finish_non_exhaustive()
    }
}

/// All captures of a run.
#[derive(Debug, Default)]
pub struct Captures {
    files: Vec<File>,
    /// By port: the files that capture at this interface, and the interface's number in each.
    taps: Vec<Vec<(usize, u32)>>,
    failure: Option<io::Error>,
}

impl Captures {
    /// Begins a file that captures at these ports, one for each interface of the plan; returns the
    /// file's number.
    pub fn add(&mut self, plan: &CapturePlan, ports: &[PortId], sink: Box<dyn Sink>) -> usize {
        let ended = |number: &usize| self.taps.iter().flatten().all(|(file, _)| file != number);
        let free = (0..self.files.len()).find(ended);
        let file = free.unwrap_or(self.files.len());
        let mut waiting = Vec::with_capacity(2 * BATCH);
        pcapng::section(&mut waiting, &plan.application, &plan.comment);
        for (number, (interface, port)) in plan.interfaces.iter().zip(ports).enumerate() {
            pcapng::interface(&mut waiting, interface, plan.snaplen);
            let port = port.0 as usize;
            if port >= self.taps.len() {
                self.taps.resize_with(port + 1, Vec::new);
            }
            self.taps[port].push((file, number as u32));
        }
        let begun = File { sink, snaplen: plan.snaplen, waiting, ended: false };
        match free {
            Some(file) => self.files[file] = begun,
            None => self.files.push(begun),
        }
        file
    }

    /// Ends a file, after its sink has taken the collected blocks; returns the ports that are not
    /// captured any more. The number becomes free for another file.
    pub fn end(&mut self, file: usize) -> Vec<PortId> {
        let Some(ended) = self.files.get_mut(file) else { return Vec::new() };
        let _ = ended.flush();
        *ended = File { sink: Box::new(Nowhere), snaplen: 0, waiting: Vec::new(), ended: true };
        let mut unused = Vec::new();
        for (port, taps) in self.taps.iter_mut().enumerate() {
            let before = taps.len();
            taps.retain(|(tapped, _)| *tapped != file);
            if taps.is_empty() && before > 0 {
                unused.push(PortId(port as u32));
            }
        }
        unused
    }

    /// Captures a packet of `length` bytes that passes an interface. Bytes missing at its end are
    /// zero.
    pub fn packet(
        &mut self,
        at: Time,
        (interface, passage): (PortId, Passage),
        (bytes, length): (&[u8], u32),
    ) {
        for &(file, number) in self.taps.get(interface.0 as usize).into_iter().flatten() {
            let file = &mut self.files[file];
            if file.ended {
                continue;
            }
            let packet = pcapng::Packet {
                interface: number,
                at,
                passage,
                bytes,
                length,
                snaplen: file.snaplen,
            };
            packet.write(&mut file.waiting);
            if file.waiting.len() >= BATCH
                && let Err(error) = file.flush()
            {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Passes the collected blocks to the sinks.
    pub fn flush(&mut self) {
        for file in &mut self.files {
            if let Err(error) = file.flush() {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Returns the cause of a failure that has ended a capture, once.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}

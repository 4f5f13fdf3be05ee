//! Where packets are kept while they are under way.

use perhop_wire::PartialChecksum;

/// What precedes a packet in its place, so that it is written with one call.
pub(crate) const HEADROOM: usize = 16;
/// How many places are made at a time.
const BLOCK: usize = 256;

/// A packet's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer(u32);

/// Places for packets of at most a length, taken and given back without allocating once there were
/// as many. A network under load holds as many as its queues and wires do.
#[derive(Debug)]
pub(crate) struct Store {
    blocks: Vec<Box<[u8]>>,
    /// The length of a place, headroom included.
    stride: usize,
    partial: Vec<Option<PartialChecksum>>,
    free: Vec<Buffer>,
    /// As many places as there may be.
    limit: usize,
}

impl Store {
    /// Creates a store of packets of at most `length` bytes, that takes at most `memory` bytes.
    pub fn new(length: usize, memory: usize) -> Self {
        let stride = (HEADROOM + length).next_multiple_of(64);
        let limit = (memory / stride).max(BLOCK);
        Self { blocks: Vec::new(), stride, partial: Vec::new(), free: Vec::new(), limit }
    }

    /// Returns the longest packet that has a place.
    pub fn length(&self) -> usize {
        self.stride - HEADROOM
    }

    /// Returns a place for a packet; none if all are taken.
    pub fn take(&mut self) -> Option<Buffer> {
        if self.free.is_empty() {
            self.grow();
        }
        let buffer = self.free.pop()?;
        self.partial[buffer.0 as usize] = None;
        Some(buffer)
    }

    #[cold]
    fn grow(&mut self) {
        let places = self.partial.len();
        if places + BLOCK > self.limit {
            return;
        }
        self.blocks.push(vec![0; BLOCK * self.stride].into_boxed_slice());
        self.partial.resize(places + BLOCK, None);
        self.free.extend((places..places + BLOCK).rev().map(|place| Buffer(place as u32)));
    }

    /// Returns a place for the same bytes; none if all are taken.
    pub fn copy(&mut self, buffer: Buffer) -> Option<Buffer> {
        let copy = self.take()?;
        let bytes = self.place(buffer).to_vec();
        self.place_mut(copy).copy_from_slice(&bytes);
        self.partial[copy.0 as usize] = self.partial(buffer);
        Some(copy)
    }

    /// A packet is gone.
    pub fn release(&mut self, buffer: Buffer) {
        debug_assert!(!self.free.contains(&buffer) || self.free.len() > 64, "released twice");
        self.free.push(buffer);
    }

    /// Returns the packet's bytes, and what is behind it in its place.
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.place(buffer)[HEADROOM..]
    }

    /// Returns the same, to be written.
    pub fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        &mut self.place_mut(buffer)[HEADROOM..]
    }

    /// Returns the checksum that is left to be computed.
    pub fn partial(&self, buffer: Buffer) -> Option<PartialChecksum> {
        self.partial[buffer.0 as usize]
    }

    /// A checksum is left to be computed, or is not.
    pub fn set_partial(&mut self, buffer: Buffer, partial: Option<PartialChecksum>) {
        self.partial[buffer.0 as usize] = partial;
    }

    /// Returns the whole place, headroom included.
    pub fn place(&self, Buffer(place): Buffer) -> &[u8] {
        let (block, at) = (place as usize / BLOCK, place as usize % BLOCK * self.stride);
        &self.blocks[block][at..at + self.stride]
    }

    /// Returns the same, to be written.
    pub fn place_mut(&mut self, Buffer(place): Buffer) -> &mut [u8] {
        let (block, at) = (place as usize / BLOCK, place as usize % BLOCK * self.stride);
        &mut self.blocks[block][at..at + self.stride]
    }

    /// How many packets there are.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.partial.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_come_back() {
        let mut store = Store::new(100, 1 << 20);
        let buffers: Vec<Buffer> = (0..600).map(|_| store.take().unwrap()).collect();
        for (number, &buffer) in buffers.iter().enumerate() {
            store.place_mut(buffer).fill(number as u8);
        }
        for (number, &buffer) in buffers.iter().enumerate() {
            assert!(store.place(buffer).iter().all(|&byte| byte == number as u8));
            assert!(store.bytes(buffer).len() >= 100);
        }
        let blocks = store.blocks.len();
        buffers.iter().for_each(|&buffer| store.release(buffer));
        assert_eq!(store.taken(), 0);
        let again = (0..600).map(|_| store.take()).filter(Option::is_some).count();
        assert_eq!((again, store.blocks.len()), (600, blocks));
    }

    #[test]
    fn memory_is_limited() {
        let mut store = Store::new(1500, BLOCK * 1536 * 2);
        assert_eq!((0..10_000).map_while(|_| store.take()).count(), 2 * BLOCK);
        let buffer = Buffer(7);
        assert_eq!(store.copy(buffer), None);
        store.release(buffer);
        assert!(store.take().is_some());
    }
}

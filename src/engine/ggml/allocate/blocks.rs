//! The free blocks of one device: best fit, neighbours merge, the last block grows.
#![allow(clippy::cast_possible_wrap, reason = "as in ggml, where the difference of sizes wraps")]

use super::amount::{Amount, first};

/// Buffers that one device's memory may be spread over (`GGML_VBUFFER_MAX_CHUNKS`, 0.1.161).
const MAX_CHUNKS: usize = 16;

/// A place in a device's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address<A> {
    pub chunk: u8,
    pub offset: A,
}

#[derive(Clone, Copy, Debug)]
struct Block<A> {
    offset: A,
    size: A,
}

/// One buffer: its free blocks by offset, and how far it was ever used.
#[derive(Debug)]
struct Chunk<A> {
    free: Vec<Block<A>>,
    used: A,
}

/// A device's buffers.
#[derive(Debug)]
pub struct Blocks<A: Amount> {
    max_buffer: u64,
    chunks: Vec<Chunk<A>>,
    /// How far along a track all of this goes on in the same way.
    pub reach: A::Reach,
}

impl<A: Amount> Blocks<A> {
    /// All is free.
    pub const fn new(max_buffer: u64) -> Self {
        let max_buffer = if max_buffer < u64::MAX / 2 { max_buffer } else { u64::MAX / 2 };
        Self { max_buffer, chunks: Vec::new(), reach: A::EVERYWHERE }
    }

    /// Bytes that all buffers together must have.
    pub fn reserved(&self) -> A {
        self.chunks.iter().fold(A::default(), |sum, chunk| sum + chunk.used)
    }

    /// How they are used, in words that differ where that does.
    pub fn write(&self, words: &mut Vec<u64>) {
        words.push(self.chunks.len() as u64);
        for Chunk { free, used } in &self.chunks {
            words.push(free.len() as u64);
            used.write(words);
            for Block { offset, size } in free {
                offset.write(words);
                size.write(words);
            }
        }
    }

    /// Lets them be used so again, and takes their words off.
    pub fn read(&mut self, words: &mut &[u64]) {
        self.chunks.resize_with(first(words) as usize, || Chunk { free: Vec::new(), used: A::default() });
        for Chunk { free, used } in &mut self.chunks {
            let blocks = first(words);
            *used = A::read(words);
            free.clear();
            free.extend((0..blocks).map(|_| Block { offset: A::read(words), size: A::read(words) }));
        }
    }

    /// Takes `size` bytes from the smallest block that is large enough; from the last, open one only if no other is.
    pub fn allocate(&mut self, size: A) -> Address<A> {
        let (at, block) =
            self.closed_block(size).or_else(|| self.open_block(size)).unwrap_or_else(|| self.new_chunk(size));
        let chunk = &mut self.chunks[at];
        let address = Address { chunk: at as u8, offset: chunk.free[block].offset };
        let end = address.offset + size;
        chunk.free[block].offset = end;
        chunk.free[block].size = chunk.free[block].size - size;
        if chunk.free[block].size.here() == 0 {
            chunk.free.remove(block);
        }
        if end.here() > chunk.used.here() {
            A::heed(&mut self.reach, chunk.used, end);
            chunk.used = end;
        } else {
            A::heed(&mut self.reach, end, chunk.used);
        }
        address
    }

    /// The smallest fitting block before the last one; of equals the last, and of several buffers the last that has any.
    fn closed_block(&mut self, size: A) -> Option<(usize, usize)> {
        let Self { chunks, reach, .. } = self;
        chunks.iter().enumerate().rev().find_map(|(at, chunk)| {
            let closed = chunk.free.len().saturating_sub(1);
            let mut best: Option<(usize, A)> = None;
            for (block, free) in chunk.free[..closed].iter().enumerate().rev() {
                if free.size.here() < size.here() {
                    A::heed(reach, free.size, size);
                } else if best.is_none_or(|(_, smallest)| free.size.here() < smallest.here()) {
                    A::heed(reach, size, free.size);
                    if let Some((_, larger)) = best {
                        A::heed(reach, free.size, larger);
                    }
                    best = Some((block, free.size));
                } else if let Some((_, smallest)) = best {
                    A::heed(reach, smallest, free.size);
                }
            }
            best.map(|(block, _)| (at, block))
        })
    }

    /// The last block of a buffer: of several, the one that wastes least, or that must grow least.
    fn open_block(&self, size: A) -> Option<(usize, usize)> {
        let mut best = None;
        let mut best_reuse = i64::MIN;
        for (at, chunk) in self.chunks.iter().enumerate() {
            let Some(block) = chunk.free.last() else { continue };
            let [used, offset, asked] = [chunk.used, block.offset, size].map(|amount| amount.here() as i64);
            let reuse = used.wrapping_sub(offset).wrapping_sub(asked);
            let better = (best_reuse < 0 && reuse > best_reuse) || (reuse >= 0 && reuse < best_reuse);
            if block.size.here() >= size.here() && better {
                best = Some((at, chunk.free.len() - 1));
                best_reuse = reuse;
            }
        }
        best
    }

    /// A further buffer; the last one that is allowed has no end.
    fn new_chunk(&mut self, size: A) -> (usize, usize) {
        let least = if self.chunks.len() + 1 >= MAX_CHUNKS { u64::MAX / 2 } else { self.max_buffer };
        let size = if size.here() > least { size } else { A::everywhere(least) };
        self.chunks.push(Chunk { free: vec![Block { offset: A::default(), size }], used: A::default() });
        (self.chunks.len() - 1, 0)
    }

    /// Gives `size` bytes back: to the first block that they touch, which may then touch its neighbour. (Empty tensors leave
    /// empty blocks behind, which is why the order of these tests matters.)
    pub fn free(&mut self, address: Address<A>, size: A) {
        let (start, end) = (address.offset.here(), (address.offset + size).here());
        let free = &mut self.chunks[usize::from(address.chunk)].free;
        let after = |block: &Block<A>| (block.offset + block.size).here();
        let touching = free.iter().position(|block| after(block) == start || block.offset.here() == end);
        let Some(at) = touching else {
            // not by bisection: a block may have grown past an empty one, and then the list is not quite in order
            let at = free.iter().position(|block| block.offset.here() >= start).unwrap_or(free.len());
            free.insert(at, Block { offset: address.offset, size });
            return;
        };
        let before = after(&free[at]) == start;
        free[at].size = free[at].size + size;
        if !before {
            free[at].offset = address.offset;
        }
        let left = if before { at } else { at.wrapping_sub(1) };
        let joined = free.get(left).zip(free.get(left.wrapping_add(1))).filter(|(a, b)| after(a) == b.offset.here());
        if let Some((_, right)) = joined {
            free[left].size = free[left].size + right.size;
            free.remove(left + 1);
        }
    }
}

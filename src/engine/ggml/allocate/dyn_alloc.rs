//! The dynamic allocator of one device: best fit, adjacent free blocks merge, the last block grows.
#![allow(clippy::cast_possible_wrap, reason = "as in ggml, where the difference of sizes wraps")]

use super::Piece;

/// Maximum number of chunks of one device (`GGML_VBUFFER_MAX_CHUNKS`, 0.1.161).
const MAX_CHUNKS: usize = 16;

/// A position in a device's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub chunk: usize,
    pub offset: u64,
}

#[derive(Clone, Copy)]
struct FreeBlock {
    offset: u64,
    size: u64,
}

/// One buffer: its free blocks by offset, and its highest used offset.
struct Chunk {
    free: Vec<FreeBlock>,
    used: u64,
}

/// The buffers of one device.
pub struct DynAlloc {
    alignment: u64,
    max_buffer: u64,
    chunks: Vec<Chunk>,
    /// The largest allocation.
    largest: u64,
}

impl DynAlloc {
    pub fn new(alignment: u64, max_buffer: u64) -> Self {
        Self { alignment, max_buffer: max_buffer.min(u64::MAX / 2), chunks: Vec::new(), largest: 0 }
    }

    /// Total size of all buffers, and the largest tensor in them.
    pub fn reserved(&self) -> Piece {
        Piece { bytes: self.chunks.iter().map(|chunk| chunk.used).sum(), tensor: self.largest }
    }

    /// Takes `bytes` from the smallest free block that is large enough; from a chunk's last (growing) block only if no
    /// other fits.
    pub fn allocate(&mut self, bytes: u64) -> Address {
        let size = bytes.next_multiple_of(self.alignment);
        self.largest = self.largest.max(size);
        let (at, block) =
            self.inner_block(size).or_else(|| self.last_block(size)).unwrap_or_else(|| self.new_chunk(size));
        let chunk = &mut self.chunks[at];
        let address = Address { chunk: at, offset: chunk.free[block].offset };
        chunk.free[block].offset += size;
        chunk.free[block].size -= size;
        if chunk.free[block].size == 0 {
            chunk.free.remove(block);
        }
        chunk.used = chunk.used.max(address.offset + size);
        address
    }

    /// The smallest fitting block, last blocks excluded; the later of equals, and the last chunk that has one.
    fn inner_block(&self, size: u64) -> Option<(usize, usize)> {
        self.chunks.iter().enumerate().rev().find_map(|(at, chunk)| {
            let inner = chunk.free.len().saturating_sub(1);
            let fitting = chunk.free[..inner].iter().enumerate().filter(|(_, block)| block.size >= size);
            fitting.rev().min_by_key(|(_, block)| block.size).map(|(block, _)| (at, block))
        })
    }

    /// The last block of the chunk that wastes least or grows least.
    fn last_block(&self, size: u64) -> Option<(usize, usize)> {
        let mut best = None;
        let mut best_reuse = i64::MIN;
        for (at, chunk) in self.chunks.iter().enumerate() {
            let Some(block) = chunk.free.last() else { continue };
            let reuse = (chunk.used as i64).wrapping_sub(block.offset as i64).wrapping_sub(size as i64);
            let better = (best_reuse < 0 && reuse > best_reuse) || (reuse >= 0 && reuse < best_reuse);
            if block.size >= size && better {
                best = Some((at, chunk.free.len() - 1));
                best_reuse = reuse;
            }
        }
        best
    }

    /// A further chunk; the last one allowed is unlimited.
    fn new_chunk(&mut self, size: u64) -> (usize, usize) {
        let size = if self.chunks.len() + 1 >= MAX_CHUNKS { u64::MAX / 2 } else { size.max(self.max_buffer) };
        self.chunks.push(Chunk { free: vec![FreeBlock { offset: 0, size }], used: 0 });
        (self.chunks.len() - 1, 0)
    }

    /// Frees `bytes`: merges them into the first adjacent block, which may then merge with its neighbour. (Empty
    /// tensors leave empty blocks behind, so the order of these tests matters.)
    pub fn free(&mut self, address: Address, bytes: u64) {
        let size = bytes.next_multiple_of(self.alignment);
        let (start, end) = (address.offset, address.offset + size);
        let free = &mut self.chunks[address.chunk].free;
        let touching = free.iter().position(|block| block.offset + block.size == start || block.offset == end);
        let Some(at) = touching else {
            // no binary search: a block may have grown past an empty one, so the list is not always sorted
            let at = free.iter().position(|block| block.offset >= start).unwrap_or(free.len());
            free.insert(at, FreeBlock { offset: start, size });
            return;
        };
        let before = free[at].offset + free[at].size == start;
        free[at].size += size;
        if !before {
            free[at].offset = start;
        }
        let left = if before { at } else { at.wrapping_sub(1) };
        let joined = free.get(left).zip(free.get(left.wrapping_add(1))).filter(|(a, b)| a.offset + a.size == b.offset);
        if let Some((_, right)) = joined {
            free[left].size += right.size;
            free.remove(left + 1);
        }
    }
}

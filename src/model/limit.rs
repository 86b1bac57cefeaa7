//! A limit of what is planned.

/// Upper limit of the number of blocks: over a hundred times that of the largest published models.
pub const MAX_BLOCKS: u64 = 1 << 14;

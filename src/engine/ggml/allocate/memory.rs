//! A device's memory: what is free, and who will give bytes back.

use super::amount::Amount;
use super::blocks::{Address, Blocks};
use super::name::Name;

/// Bytes that were taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken<A> {
    pub address: Address<A>,
    pub bytes: A,
}

/// As it stands.
#[derive(Debug)]
pub struct Memory<A: Amount> {
    pub blocks: Blocks<A>,
    /// In the order of their names.
    pub held: Vec<(Name, Taken<A>)>,
    /// Of what is carried out: bytes that were taken before and change hands, and those that are taken.
    pub before: Vec<Taken<A>>,
    pub here: Vec<Taken<A>>,
}

impl<A: Amount> Memory<A> {
    /// All is free.
    pub const fn new(max_buffer: u64) -> Self {
        Self { blocks: Blocks::new(max_buffer), held: Vec::new(), before: Vec::new(), here: Vec::new() }
    }

    /// How it stands, in words that differ where that does.
    pub fn write(&self, words: &mut Vec<u64>) {
        self.blocks.write(words);
        for (who, Taken { address, bytes }) in &self.held {
            words.push(u64::from(who.word()) << 8 | u64::from(address.chunk));
            address.offset.write(words);
            bytes.write(words);
        }
    }

    /// Lets it stand so again.
    pub fn read(&mut self, mut words: &[u64]) {
        self.blocks.read(&mut words);
        self.held.clear();
        while let Some((first, rest)) = words.split_first() {
            words = rest;
            let (who, chunk) = (Name::of_word((first >> 8) as u32), (first & 0xff) as u8);
            let address = Address { chunk, offset: A::read(&mut words) };
            self.held.push((who, Taken { address, bytes: A::read(&mut words) }));
        }
    }
}

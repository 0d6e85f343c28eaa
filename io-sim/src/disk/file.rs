//! A file as the operating system and the platter see it: the page cache, and per sector what is durable.
//!
//! ```text
//! write ──▶ cache (dirty) ── sync ──▶ durable
//!               │ └─ failed sync ──▶ dropped, or clean without being durable
//!               └─ power cut ──▶ as before · as written · torn · zeros · garbage
//! ```

use super::cut::Cut;
use crate::chance::Draws;
use std::collections::BTreeMap;

/// Bytes that a disk writes as one, when it does not tear.
pub(crate) const SECTOR: usize = 4096;
/// Bytes that even a tearing disk writes as one.
const BLOCK: usize = 512;

/// A file.
#[derive(Default)]
pub(crate) struct File {
    cache: Vec<u8>,
    /// The length as it is on the platter.
    durable_length: usize,
    dirty: BTreeMap<usize, Dirty>,
    /// An earlier life of the broker has had it: where anything of that is left, it is not to be written to.
    sealed: bool,
    /// What stood in it when it was given up to be used again: that may be written over.
    given_up: Vec<u8>,
}

/// A sector whose newest contents are not durable.
pub(super) struct Dirty {
    /// What may be on the disk instead: first what is durable, then what was written and overwritten since.
    older: Vec<Box<[u8]>>,
    /// A failed sync has marked it clean: a later sync does not write it.
    forgotten: bool,
}

/// What becomes of an unsynced sector at a power cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Lost,
    Kept,
    Torn,
    Zero,
    Garbage,
}

impl Fate {
    /// What it is counted as.
    fn name(self) -> &'static str {
        match self {
            Fate::Lost => "sector lost",
            Fate::Kept => "sector kept",
            Fate::Torn => "sector torn",
            Fate::Zero => "sector zeroed",
            Fate::Garbage => "sector garbage",
        }
    }
}

impl Dirty {
    /// What is durable.
    pub(super) fn durable(&self) -> &[u8] {
        &self.older[0]
    }

    /// The sector, which holds what was written last, becomes what the power cut leaves of it.
    pub(super) fn meet(&self, fate: Fate, sector: &mut [u8], draws: &mut Draws) {
        match fate {
            Fate::Lost => sector.copy_from_slice(&self.older[0]),
            Fate::Kept => {
                let version = draws.below(self.older.len() as u64) as usize;
                if version > 0 {
                    sector.copy_from_slice(&self.older[version]);
                }
            }
            Fate::Torn => {
                for block in (0..SECTOR).step_by(BLOCK) {
                    if draws.percent(50) {
                        let range = block..block + BLOCK;
                        sector[range.clone()].copy_from_slice(&self.older[0][range]);
                    }
                }
            }
            Fate::Zero => sector.fill(0),
            Fate::Garbage => {
                for word in sector.chunks_exact_mut(8) {
                    word.copy_from_slice(&draws.number().to_le_bytes());
                }
            }
        }
    }
}

impl File {
    /// Makes it this long; what is new reads as zeros. The length is durable with the next sync.
    pub(crate) fn reserve(&mut self, length: usize) {
        if self.cache.len() < length {
            self.cache.resize(length, 0);
        }
    }

    /// Why a write there breaks the promise that nothing is written twice, or behind a tear; none if it keeps it.
    pub(crate) fn forbids(&mut self, offset: usize, length: usize) -> Option<&'static str> {
        let written = |from: usize, bytes: &[u8]| {
            bytes.chunks(BLOCK).enumerate().any(|(index, block)| {
                let at = from + index * BLOCK;
                let left = self.given_up.get(at..at + block.len()) == Some(block);
                !left && block.iter().fold(0, |all, byte| all | byte) != 0
            })
        };
        if written(offset, &self.cache[offset..offset + length]) {
            return Some("it overwrites what stands there");
        }
        if self.sealed && written(0, &self.cache) {
            return Some("it goes on in a segment that a broker wrote to before it was restarted");
        }
        self.sealed = false;
        None
    }

    /// The broker's life is over.
    pub(crate) fn seal(&mut self) {
        self.sealed = true;
    }

    /// It is to be used again: what stands in it is nobody's any more.
    pub(crate) fn give_up(&mut self) {
        self.given_up.clone_from(&self.cache);
        self.sealed = false;
    }

    /// Writes at a sector's beginning, inside the length.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        for (index, new) in bytes.chunks(SECTOR).enumerate() {
            let at = offset + index * SECTOR;
            let sector = &mut self.cache[at..at + new.len()];
            let dirty = self.dirty.entry(at).or_insert_with(|| Dirty { older: Vec::new(), forgotten: false });
            dirty.older.push(Box::from(&*sector));
            dirty.forgotten = false;
            sector.copy_from_slice(new);
        }
    }

    /// Makes everything written durable, what a failed sync forgot aside.
    pub(crate) fn sync(&mut self) {
        self.dirty.retain(|_, dirty| dirty.forgotten);
        self.durable_length = self.cache.len();
    }

    /// What is on the platter there, in whole sectors; none where anything of it is not durable.
    pub(crate) fn platter(&self, offset: usize, length: usize) -> Option<&[u8]> {
        let end = offset.checked_add(length)?;
        let bytes = self.cache.get(offset..end.min(self.durable_length))?;
        (bytes.len() == length && self.dirty.range(offset..end).next().is_none()).then_some(bytes)
    }

    /// A sync failed and the pages are as before the writes.
    pub(crate) fn drop_dirty(&mut self) {
        for (at, dirty) in std::mem::take(&mut self.dirty) {
            self.cache[at..at + SECTOR].copy_from_slice(&dirty.older[0]);
        }
    }

    /// A sync failed and the pages count as clean.
    pub(crate) fn forget_dirty(&mut self) {
        for dirty in self.dirty.values_mut() {
            dirty.forgotten = true;
        }
    }

    /// What a failed sync forgot is read as it is on the platter.
    pub(crate) fn drop_forgotten(&mut self) {
        let forgotten: Vec<usize> =
            self.dirty.iter().filter(|(_, dirty)| dirty.forgotten).map(|(at, _)| *at).collect();
        for at in forgotten {
            let dirty = self.dirty.remove(&at).expect("just listed");
            self.cache[at..at + SECTOR].copy_from_slice(&dirty.older[0]);
        }
    }

    /// The power goes: a new length stays or not, and every sector that is not durable meets its fate.
    pub(super) fn power_cut(
        &mut self,
        inode: u64,
        cut: &mut Cut<'_>,
        mut fated: impl FnMut(Option<usize>, &'static str),
    ) {
        if self.durable_length < self.cache.len() && !cut.keeps_length(inode) {
            // Data without size: what was written behind the old end is out of reach.
            fated(None, "file length lost");
            self.cache.truncate(self.durable_length);
        }
        self.durable_length = self.cache.len();
        for (at, dirty) in std::mem::take(&mut self.dirty) {
            let Some(sector) = self.cache.get_mut(at..at + SECTOR) else { continue };
            fated(Some(at), cut.decide(inode, at, sector, &dirty).name());
        }
    }

    /// Turns one bit over in a sector that is durable and not empty; tells where.
    pub(crate) fn rot(&mut self, draws: &mut Draws) -> Option<usize> {
        let written = |at: &usize| {
            !self.dirty.contains_key(at) && self.cache[*at..at + SECTOR].iter().any(|byte| *byte != 0)
        };
        let sectors: Vec<usize> =
            (0..self.cache.len() / SECTOR).map(|sector| sector * SECTOR).filter(written).collect();
        if sectors.is_empty() {
            return None;
        }
        let at = draws.pick(&sectors) + draws.below(SECTOR as u64) as usize;
        let bit = 1 << draws.below(8);
        self.cache[at] ^= bit;
        if let Some(left) = self.given_up.get_mut(at) {
            *left ^= bit;
        }
        Some(at)
    }

    /// What stands at the front of a sector before the last write to it that is not durable, or zeros.
    pub(crate) fn stale(&self, at: usize) -> Vec<u8> {
        self.dirty.get(&at).map_or_else(|| vec![0; SECTOR], |dirty| dirty.older[0].to_vec())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Leaves;

    /// Were it to fail, a broker that tries a failed sync again would get away with it.
    #[test]
    fn a_second_sync_does_not_save_what_the_first_forgot() {
        let mut file = File::default();
        file.reserve(2 * SECTOR);
        file.write(0, &[1; SECTOR]);
        file.forget_dirty();
        file.write(SECTOR, &[2; SECTOR]);
        file.sync();
        assert_eq!((file.platter(0, SECTOR), file.platter(SECTOR, 9)), (None, Some(&[2; 9][..])));
        assert_eq!(file.bytes()[0], 1);
        let leaves = Leaves { operations: Vec::new(), kept: 0 };
        file.power_cut(1, &mut Cut::told(&leaves), |_, _| {});
        assert_eq!((file.bytes()[0], file.bytes()[SECTOR]), (0, 2));
    }

    /// Were it to fail, a broker that goes on behind a tear would get away with it.
    #[test]
    fn nothing_is_written_twice_nor_to_what_an_earlier_life_left() {
        let mut file = File::default();
        file.reserve(3 * SECTOR);
        file.seal();
        assert_eq!(file.forbids(0, SECTOR), None, "a blank file of an earlier life is as good as new");
        file.write(0, &[1; SECTOR]);
        assert_eq!(file.forbids(SECTOR, SECTOR), None);
        assert!(file.forbids(0, 2 * SECTOR).is_some());
        file.seal();
        assert!(file.forbids(SECTOR, SECTOR).is_some());
    }
}

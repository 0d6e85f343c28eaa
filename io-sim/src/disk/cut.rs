//! What a power cut leaves: drawn, or told by an enumeration that tries everything.

use super::file::{Dirty, Fate};
use crate::chance::{Chance, Domain, Draws};
use crate::fault::{Leaves, UnderWay};
use crate::scenario::{DiskSettings, Survival};
use serde::Serialize;

/// Decides what a power cut leaves.
pub(crate) enum Cut<'a> {
    /// By the choices of the fault.
    Drawn(Drawn<'a>),
    /// As told.
    Told(Told<'a>),
}

pub(crate) struct Drawn<'a> {
    chance: Chance,
    entity: u64,
    draws: &'a mut Draws,
    survival: Survival,
    entry_lost_percent: u32,
}

pub(crate) struct Told<'a> {
    leaves: &'a Leaves,
    size: CutSize,
}

/// What a power cut found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CutSize {
    /// Operations under way.
    pub operations: u32,
    /// Sectors, lengths and names that were not durable, after those had ended.
    pub items: u32,
}

impl<'a> Cut<'a> {
    /// Some cuts lose everything, some nothing, most leave a part.
    pub(crate) fn drawn(
        chance: Chance,
        settings: &DiskSettings,
        entity: u64,
        draws: &'a mut Draws,
    ) -> Cut<'a> {
        let only = |lost, kept| Survival { lost, kept, torn: 0, zero: 0, garbage: 0 };
        let survival = match draws.below(20) {
            0..7 => only(1, 0),
            7..9 => only(0, 1),
            _ => settings.survival.clone(),
        };
        let entry_lost_percent = settings.entry_lost_percent;
        Cut::Drawn(Drawn { chance, entity, draws, survival, entry_lost_percent })
    }

    pub(crate) fn told(leaves: &'a Leaves) -> Cut<'a> {
        Cut::Told(Told { leaves, size: CutSize::default() })
    }

    /// What becomes of an operation under way.
    pub(super) fn under_way(&mut self) -> UnderWay {
        match self {
            Cut::Drawn(drawn) => under_way(drawn.draws, 10),
            Cut::Told(told) => {
                let index = told.size.operations as usize;
                told.size.operations += 1;
                told.leaves.operations.get(index).copied().unwrap_or(UnderWay::NotBegun)
            }
        }
    }

    /// Whether a change of a name stays.
    pub(super) fn keeps_name(&mut self) -> bool {
        match self {
            Cut::Drawn(drawn) => !drawn.draws.percent(drawn.entry_lost_percent),
            Cut::Told(told) => told.keeps(),
        }
    }

    /// Whether a file's new length stays.
    pub(super) fn keeps_length(&mut self, inode: u64) -> bool {
        match self {
            Cut::Drawn(drawn) => drawn.of_place(inode, u64::MAX).percent(50),
            Cut::Told(told) => told.keeps(),
        }
    }

    /// Makes of a sector, which holds what was written last, what the cut leaves; tells its fate.
    pub(super) fn decide(&mut self, inode: u64, at: usize, sector: &mut [u8], dirty: &Dirty) -> Fate {
        match self {
            Cut::Drawn(drawn) => {
                let mut draws = drawn.of_place(inode, at as u64);
                let fate = draw_fate(&mut draws, &drawn.survival);
                dirty.meet(fate, sector, &mut draws);
                fate
            }
            Cut::Told(told) => {
                if told.keeps() {
                    return Fate::Kept;
                }
                sector.copy_from_slice(dirty.durable());
                Fate::Lost
            }
        }
    }

    /// What it found; nothing is counted of one that was drawn.
    pub(crate) fn size(&self) -> CutSize {
        match self {
            Cut::Drawn(_) => CutSize::default(),
            Cut::Told(told) => told.size,
        }
    }
}

impl Drawn<'_> {
    /// The choices of one place, whatever else was not synced.
    fn of_place(&self, inode: u64, at: u64) -> Draws {
        self.chance.draws(Domain::Survival, self.entity ^ inode.rotate_left(40) ^ at)
    }
}

impl Told<'_> {
    fn keeps(&mut self) -> bool {
        let item = self.size.items;
        self.size.items += 1;
        self.leaves.kept.checked_shr(item).unwrap_or(0) & 1 == 1
    }
}

/// What becomes of an operation under way: not begun or done, one time each of so many, else written.
pub(super) fn under_way(draws: &mut Draws, of: u64) -> UnderWay {
    match draws.below(of) {
        0 => UnderWay::NotBegun,
        1 => UnderWay::Done,
        _ => UnderWay::Written,
    }
}

fn draw_fate(draws: &mut Draws, survival: &Survival) -> Fate {
    let weights = [
        (Fate::Lost, survival.lost),
        (Fate::Kept, survival.kept),
        (Fate::Torn, survival.torn),
        (Fate::Zero, survival.zero),
        (Fate::Garbage, survival.garbage),
    ];
    let mut at = draws.below(weights.iter().map(|(_, weight)| weight).sum());
    for (fate, weight) in weights {
        if at < weight {
            return fate;
        }
        at -= weight;
    }
    Fate::Lost
}

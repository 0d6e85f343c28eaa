//! What lies and rot did to the log, and whether the next recovery answers it rightly: it refuses where records that
//! something calls synced are gone, and names the first of them; it goes on where nothing can tell the damage from a
//! torn tail, or where nothing that was damaged is needed.

use super::World;
use crate::ledger::{self, Need};
use crate::outcome::Checker;
use vowmq_core::Refusal;
use vowmq_core::durable::recovery::RecoveryReport;
use vowmq_core::ids::{Lsn, MessageId, SegmentNumber};

/// The damage.
#[derive(Default)]
pub(super) struct Damage {
    /// Bytes that are not as they were written: segment, from, to.
    places: Vec<(SegmentNumber, u64, u64)>,
    /// The first record of each write that went elsewhere, or nowhere.
    missing: Vec<Lsn>,
    /// The record that would follow on each batch without records that was written elsewhere, or nowhere.
    gaps: Vec<Lsn>,
    /// Bytes that this recovery was shown as they were before.
    hidden: Vec<(SegmentNumber, u64, u64)>,
    /// Something was done to what is on the platter at some time: messages may be unreadable.
    ever: bool,
    /// A header was changed, which may look as if a newer version had written it.
    header: bool,
    /// It happened after the recovery at hand had begun, which may have read the place before.
    fresh: bool,
    /// This recovery was shown something old.
    misled: bool,
    /// A recovery that was misled was crashed: nobody can tell what it has done by then.
    beyond: bool,
    /// A recovery that saw it was crashed: it may have gone on without the records that are gone, and used their numbers
    /// again.
    passed: bool,
}

impl Damage {
    /// Whether anything was done to what is on the platter.
    fn is_any(&self) -> bool {
        !self.places.is_empty() || !self.missing.is_empty() || !self.gaps.is_empty()
    }

    /// What is written anew is as it was written.
    fn written_over(&mut self, segment: SegmentNumber, from: u64, to: u64) {
        let left = |&(of, begin, end): &(SegmentNumber, u64, u64)| match of == segment {
            true => [(of, begin, end.min(from)), (of, begin.max(to), end)],
            false => [(of, begin, end), (of, end, end)],
        };
        self.places = self.places.iter().flat_map(left).filter(|(_, begin, end)| begin < end).collect();
    }
}

impl World<'_> {
    /// Takes in what was written, which makes good what was damaged there.
    fn take_in_writes(&mut self) {
        for (segment, from, to) in self.disk.take_written() {
            self.damage.written_over(segment, from, to);
        }
    }

    /// Takes in what the disk lied about.
    pub(super) fn take_in_harm(&mut self) {
        self.take_in_writes();
        let Some(harm) = self.disk.take_harm() else { return };
        self.effects.count(harm.effect);
        let place = harm.place.map(|(segment, from, length)| (segment, from, from + length));
        self.trace.note("disk", &[], || {
            let missing = harm.missing.map_or("nothing".to_owned(), |lsn| format!("record {lsn}"));
            format!("lies ({}): gone is {missing}, {place:?}", harm.effect)
        });
        match harm.missing {
            Some(missing) => {
                self.damage.ever = true;
                let gone = if harm.gap { &mut self.damage.gaps } else { &mut self.damage.missing };
                gone.push(missing);
                self.damage.places.extend(place);
                self.damage.fresh |= self.process.is_recovering();
                self.ledger.blind();
                self.model.disk_lies();
            }
            // Who serves reads nothing but messages, and tries again.
            None if !self.process.is_recovering() => {}
            None => {
                self.damage.hidden.extend(place);
                self.damage.misled = true;
            }
        }
    }

    /// A message is called unreadable: right only where something was done to the disk, and then the run is over.
    pub(super) fn called_unreadable(&mut self, message: MessageId, given_up: bool) {
        self.effects.count("message unreadable");
        if !given_up {
            return;
        }
        if !self.damage.ever {
            let text = format!("message {message} is called unreadable, and nothing was done to the disk");
            return self.model.fail(Checker::Damage, "broker", text);
        }
        // A message is gone, and the broker says so: what would have come of it nobody can tell.
        self.over = true;
    }

    /// The first record from `least` on that is gone and that recovery needs; `shown`: or that this recovery was not shown.
    fn first_gone(&self, shown: bool, least: Lsn) -> Option<Lsn> {
        let begins = self.ledger.replay_begins();
        let missing = self.damage.missing.iter().chain(&self.damage.gaps).copied();
        let missing = missing.filter(|lsn| self.ledger.facts().is_none() || *lsn >= begins);
        let hidden = self.damage.hidden.iter().filter(|_| shown);
        let records = self.damage.places.iter().chain(hidden).filter_map(|&(segment, from, to)| {
            match self.ledger.need(segment, from, to) {
                Need::Record(lsn) => Some(lsn),
                Need::Checkpoint | Need::Message => None,
            }
        });
        missing.chain(records).filter(|lsn| *lsn >= least).min()
    }

    /// Whether recovery cannot see what the newest segment says: it begins with an older checkpoint, whose records are
    /// all there except those of the newest segment.
    fn is_newest_header_damaged(&self) -> bool {
        let mut places = self.damage.places.iter().chain(&self.damage.hidden);
        places.any(|&(segment, from, _)| from < ledger::HEADER_BYTES && self.ledger.is_newest(segment))
    }

    /// Whether the checkpoint that recovery begins with was damaged, or shown as it was not.
    fn is_checkpoint_damaged(&self) -> bool {
        let mut places = self.damage.places.iter().chain(&self.damage.hidden);
        places.any(|&(segment, from, to)| self.ledger.need(segment, from, to) == Need::Checkpoint)
    }

    /// A byte of a segment has rotted.
    pub(super) fn rotted(&mut self, segment: SegmentNumber, at: u64) {
        self.effects.count("rot");
        self.take_in_writes();
        let need = self.ledger.need(segment, at, at + 1);
        self.damage.ever = true;
        self.damage.places.push((segment, at, at + 1));
        self.damage.header |= at < 12;
        self.damage.fresh = true;
        self.trace.note("disk", &[at], || {
            format!("byte {at} of segment {segment} rots; it is needed for: {need:?}")
        });
    }

    /// What a process was shown counts no more when it is gone.
    pub(super) fn process_forgets_damage(&mut self) {
        self.damage.passed |= self.damage.is_any() && !self.damage.fresh && self.process.is_recovering();
        self.damage.beyond |= self.damage.misled && self.process.is_recovering();
        self.damage.hidden.clear();
        self.damage.misled = false;
        self.damage.fresh = false;
    }

    /// The broker refuses: true if that is the right answer to damage, which ends the run.
    pub(super) fn is_right_refusal(&self, refusal: &Refusal) -> bool {
        match refusal {
            _ if self.damage.beyond => true,
            // What one read hid another may have shown.
            Refusal::Damaged { first, .. } => {
                let gone = [false, true].map(|shown| self.first_gone(shown, Lsn::NONE));
                gone.contains(&Some(*first))
                    || self.ledger.facts().is_none() && (self.damage.is_any() || self.damage.misled)
                    || self.is_newest_header_damaged()
            }
            // Where the newest segment is damaged an older checkpoint is found, whose segments may be gone.
            Refusal::CheckpointDamaged { .. } | Refusal::SegmentMissing { .. } => {
                self.is_checkpoint_damaged() || self.first_gone(true, Lsn::NONE).is_some()
            }
            Refusal::NewerFormat { .. } => self.damage.header,
            _ => false,
        }
    }

    /// The broker serves: whether it may, after what was done to the log. The run ends when something is gone.
    pub(super) fn judge_start(&mut self, report: &RecoveryReport) {
        let (recovery, last) = (report.recovery_count, report.last_lsn);
        // A checkpoint made since has made good what was missing.
        self.damage.missing.retain(|missing| *missing >= report.replayed_from);
        // So has one that begins right behind the gap: what was read is not gone.
        self.damage.gaps.retain(|gap| *gap >= report.replayed_from && *gap > last);
        // It may have read again what it was shown wrongly.
        let blind = self.ledger.facts().is_none();
        // A ledger that is blind does not know of the checkpoints that were made since.
        let least = if blind { report.replayed_from } else { Lsn::NONE };
        let hidden = self.first_gone(true, least).filter(|hidden| *hidden > last);
        let first = earlier(self.first_gone(false, least), hidden);
        // What this recovery wrote itself it does not read again.
        let unread = blind || first.is_none_or(|first| first <= last);
        if std::mem::take(&mut self.damage.fresh) && unread {
            return;
        }
        let Some(first) = first else {
            self.over |= self.damage.misled || self.damage.beyond || self.is_checkpoint_damaged();
            return;
        };
        let excused = self.damage.beyond || (self.damage.passed && first <= last);
        if !excused && ledger::is_witnessed(&self.disk, first, recovery) {
            let text = format!(
                "record {first} was damaged on the disk and something on it says that it was synced; the broker starts \
                 and says nothing"
            );
            self.model.fail(Checker::Damage, "broker", text);
        }
        self.effects.count("damage that nothing can tell from a tear");
        self.over = true;
    }
}

/// The earlier of two records, where there is one.
fn earlier(left: Option<Lsn>, right: Option<Lsn>) -> Option<Lsn> {
    left.into_iter().chain(right).min()
}

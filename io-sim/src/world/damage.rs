//! What lies and rot did to the log, and whether the next recovery answers it rightly: it refuses where records that
//! something calls synced are gone, and names the first of them; it goes on where nothing can tell the damage from a
//! torn tail, or where nothing that was damaged is needed.

use super::World;
use crate::ledger;
use crate::outcome::Checker;
use vowmq_core::Refusal;
use vowmq_core::ids::{Lsn, RecoveryCount, SegmentNumber};

/// The damage.
#[derive(Default)]
pub(super) struct Damage {
    /// The first record that is gone from the platter.
    gone: Option<Lsn>,
    /// The first record that this recovery was not shown.
    hidden: Option<Lsn>,
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
    fn first(&self) -> Option<Lsn> {
        earlier(self.gone, self.hidden)
    }
}

impl World<'_> {
    /// Takes in what the disk lied about.
    pub(super) fn take_in_harm(&mut self) {
        let Some(harm) = self.disk.take_harm() else { return };
        self.effects.count(harm.effect);
        let lsn = harm
            .place
            .and_then(|(segment, from, length)| self.ledger.first_needing(segment, from, from + length));
        self.trace.note("disk", &[], || {
            let missing = harm.missing.or(lsn).map_or("nothing".to_owned(), |lsn| format!("record {lsn}"));
            format!("lies ({}): gone is {missing}", harm.effect)
        });
        match harm.missing {
            Some(missing) => {
                self.damage.gone = earlier(self.damage.gone, earlier(Some(missing), lsn));
                self.damage.fresh |= self.process.is_recovering();
                self.ledger.blind();
                self.model.disk_lies();
            }
            None => {
                self.damage.hidden = earlier(self.damage.hidden, lsn);
                self.damage.misled = true;
            }
        }
    }

    /// A byte of a segment has rotted.
    pub(super) fn rotted(&mut self, segment: SegmentNumber, at: u64) {
        self.effects.count("rot");
        let lsn = self.ledger.first_needing(segment, at, at + 1);
        self.damage.gone = earlier(self.damage.gone, lsn);
        self.damage.header |= at < 12;
        self.damage.fresh = true;
        self.trace.note("disk", &[at], || {
            let needed = lsn.map_or("nothing needs it".to_owned(), |lsn| format!("record {lsn} is gone"));
            format!("byte {at} of segment {segment} rots: {needed}")
        });
    }

    /// What a process was shown counts no more when it is gone.
    pub(super) fn process_forgets_damage(&mut self) {
        self.damage.passed |=
            self.damage.gone.is_some() && !self.damage.fresh && self.process.is_recovering();
        self.damage.beyond |= self.damage.misled && self.process.is_recovering();
        self.damage.hidden = None;
        self.damage.misled = false;
        self.damage.fresh = false;
    }

    /// The broker refuses: true if that is the right answer to damage, which ends the run.
    pub(super) fn is_right_refusal(&self, refusal: &Refusal) -> bool {
        match refusal {
            _ if self.damage.beyond => true,
            // What one read hid another may have shown.
            Refusal::Damaged { first, .. } => [self.damage.gone, self.damage.hidden].contains(&Some(*first)),
            Refusal::NewerFormat { .. } => self.damage.header,
            _ => false,
        }
    }

    /// The broker serves: whether it may, after what was done to the log. The run ends when something is gone.
    /// `last` is the last record that it has read.
    pub(super) fn judge_start(&mut self, recovery: RecoveryCount, last: Lsn) {
        // It may have read again what it was shown wrongly.
        self.damage.hidden = self.damage.hidden.filter(|hidden| *hidden > last);
        // What this recovery wrote itself it does not read again.
        let unread = self.ledger.facts().is_none() || self.damage.first().is_none_or(|first| first <= last);
        if std::mem::take(&mut self.damage.fresh) && unread {
            return;
        }
        let Some(first) = self.damage.first() else {
            self.over |= self.damage.misled || self.damage.beyond;
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

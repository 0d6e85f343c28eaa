//! Transactions: what was asked for, and what became of it.

use super::{Fate, How, Key, Model};
use crate::outcome::Checker;
use std::collections::BTreeSet;

/// What takes effect together.
#[derive(Default)]
pub(super) struct Transaction {
    pub(super) published: Vec<Key>,
    pub(super) acknowledged: Vec<(usize, Key)>,
    /// Of these: what was given out again.
    pub(super) back: BTreeSet<(usize, Key)>,
}

impl Model<'_> {
    /// The broker was asked to commit, or to roll back.
    pub(in crate::amqp) fn transaction_ends(&mut self, link: u64, commits: bool) {
        let number = self.next_transaction;
        self.next_transaction += 1;
        let its = self.link(link);
        let (published, answers) = (std::mem::take(&mut its.open), std::mem::take(&mut its.answers));
        let now_us = self.now_us;
        for key in &published {
            self.set_fate(*key, if commits { Fate::Committing(number) } else { Fate::Refused });
            self.messages.entry(*key).and_modify(|message| message.not_before_us = now_us);
        }
        if !commits {
            let back = answers.into_iter().map(|(tag, delivery, _)| (tag, delivery));
            return self.link(link).deliveries.extend(back);
        }
        let mut transaction = Transaction { published, ..Transaction::default() };
        for (_, (queue, key, bounded), how) in answers {
            self.takes_effect(link, queue, key, bounded, how);
            if how == How::Acknowledged {
                transaction.acknowledged.push((queue, key));
            }
        }
        self.link(link).committing.push(number);
        self.transactions.insert(number, transaction);
    }

    /// A channel is closed instead of committing: nothing of the transaction took effect.
    pub(in crate::amqp) fn channel_closed(&mut self, link: u64) {
        for number in std::mem::take(&mut self.link(link).committing) {
            let transaction = self.transactions.remove(&number).unwrap_or_default();
            transaction.published.into_iter().for_each(|key| self.set_fate(key, Fate::Refused));
        }
    }

    /// Commit-Ok.
    pub(in crate::amqp) fn committed(&mut self, link: u64) {
        let its = self.link(link);
        if its.committing.is_empty() {
            return self.fail(Checker::Protocol, "broker", "it says committed, and nobody asked".to_owned());
        }
        let number = its.committing.remove(0);
        let transaction = self.transactions.remove(&number).unwrap_or_default();
        transaction.published.into_iter().for_each(|key| self.set_fate(key, Fate::Confirmed));
        for (queue, key) in transaction.acknowledged {
            // Commit-Ok waits for the disk.
            self.copies[queue].entry(key).and_modify(|copy| copy.for_good |= copy.settled);
        }
    }
}

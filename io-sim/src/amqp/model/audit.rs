//! What must be true when the queues are drained.

use super::{Copy, Fate, Key, Model};
use crate::outcome::Checker;

impl Model<'_> {
    /// The queues are drained: everything confirmed was somewhere.
    pub(in crate::amqp) fn audit(&mut self) {
        let mut lost = None;
        let last = self.scenario.queues.len() - 1;
        for (key, message) in &self.messages {
            let confirmed = message.fate == Fate::Confirmed;
            for queue in message.publication.queues.iter().filter(|_| confirmed) {
                let (plan, copy) = (&self.plans[*queue], &self.copies[*queue][key]);
                let kept = !copy.may_be_lost || self.crashes == 0;
                let dropped = plan.may_drop_accepted(message.publication.delay_ms.is_some());
                if !kept || copy.excused || dropped || message.publication.expires_ms.is_some() {
                    continue;
                }
                // Given away and not back since a crash, it must be where dead letters go.
                let is_dead = |copy: &Copy| copy.rejected && plan.dead_letters && !copy.acknowledged;
                let arrived = || self.copies[last].get(key).is_some_and(|copy| copy.ever);
                let arrives = self.scenario.queues[last].durable || self.crashes == 0;
                if !(copy.settled || copy.rejected || copy.limbo) || (is_dead(copy) && arrives && !arrived())
                {
                    lost = lost.or(Some((*key, *queue)));
                }
            }
        }
        if let Some((key, queue)) = lost {
            let copy = &self.copies[queue][&key];
            let text = format!(
                "it was confirmed, and did not leave queue {queue} in a way that is known, or is no dead letter where it \
                 should be (sent {}, settled {}, given away {}, acknowledged {}, asked {:?}, held by {:?})",
                copy.sent, copy.settled, copy.rejected, copy.acknowledged, copy.asked, copy.holder
            );
            self.fail(Checker::Loss, key, text);
        }
        self.audit_transactions();
    }

    /// A transaction whose commit was not answered took effect as a whole, or not at all.
    fn audit_transactions(&mut self) {
        let mut torn = None;
        for transaction in self.transactions.values() {
            let mut sure = transaction.published.iter().filter_map(|key| {
                let message = self.messages.get(key).filter(|message| message.publication.persistent)?;
                let [queue] = message.publication.queues[..] else { return None };
                let plan = &self.plans[queue];
                // What expires may have taken effect and never be sent.
                let expires = message.publication.expires_ms.is_some();
                (plan.durable && !plan.may_drop() && !expires).then(|| (*key, self.copies[queue][key].ever))
            });
            let kept = |(queue, key): &(usize, Key)| {
                let (plan, copy) = (&self.plans[*queue], &self.copies[*queue][key]);
                let expires = self.messages[key].publication.expires_ms.is_some();
                plan.durable && !plan.may_drop() && !copy.may_be_lost && !expires
            };
            let acknowledged = transaction.acknowledged.iter().filter(|delivery| kept(delivery));
            let gone = acknowledged.map(|delivery| (delivery.1, !transaction.back.contains(delivery)));
            let mut sure = sure.by_ref().chain(gone);
            let Some((key, sent)) = sure.next() else { continue };
            if let Some((other, _)) = sure.find(|(_, other)| *other != sent) {
                torn = torn.or(Some((key, other)));
            }
        }
        if let Some((key, other)) = torn {
            let text = format!("of one transaction one of it and {other} took effect, the other did not");
            self.fail(Checker::Loss, key, text);
        }
    }
}

//! What clients do with deliveries: acknowledge, reject, give back (§1.8.3.13 to §1.8.3.17, Nack of RabbitMQ).

use super::channel::Unsettled;
use super::dead_letter::Reason;
use super::fault::Fault;
use super::wire::method::basic;
use crate::broker::Broker;
use crate::durable::record::Record;
use crate::event::Event;
use crate::ids::{ConnectionId, Lsn, QueueId};
use crate::marks::reached;
use alloc::vec::Vec;

impl Broker {
    pub(super) fn on_ack(&mut self, id: ConnectionId, number: u16, ack: &basic::Ack) -> Result<(), Fault> {
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        let taken = channel.take_deliveries(ack.delivery_tag.0, ack.multiple)?;
        if let Some(transaction) = &mut channel.transaction {
            transaction.acknowledge(taken);
            return Ok(());
        }
        self.acknowledged(id, number, taken.iter().map(|(_, unsettled)| *unsettled));
        Ok(())
    }

    pub(super) fn on_nack(
        &mut self,
        id: ConnectionId,
        number: u16,
        tag: u64,
        multiple: bool,
        requeue: bool,
    ) -> Result<(), Fault> {
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        let taken = channel.take_deliveries(tag, multiple)?;
        if let Some(transaction) = &mut channel.transaction {
            transaction.reject(taken, requeue);
            return Ok(());
        }
        self.rejected(id, number, taken.into_iter().map(|(_, unsettled)| unsettled), requeue);
        Ok(())
    }

    /// Given back, or away.
    pub(super) fn rejected(
        &mut self,
        id: ConnectionId,
        number: u16,
        taken: impl Iterator<Item = Unsettled>,
        requeue: bool,
    ) {
        let taken: Vec<Unsettled> = taken.collect();
        taken.iter().for_each(|unsettled| self.free_credit(id, number, unsettled));
        let queues = self.given_up(taken.into_iter(), requeue);
        self.serve_queues(&queues);
    }

    /// Back into their places, or away; the queues that may go on.
    pub(super) fn given_up(&mut self, taken: impl Iterator<Item = Unsettled>, requeue: bool) -> Vec<QueueId> {
        if requeue { self.return_all(taken) } else { self.give_away(taken) }
    }

    /// Everything unsettled again, in the old places.
    pub(super) fn on_recover(
        &mut self,
        id: ConnectionId,
        number: u16,
        requeue: bool,
        answered: bool,
    ) -> Result<(), Fault> {
        if !requeue {
            let text = "basic.recover with requeue=false";
            return Err(Fault::new(super::wire::ReplyCode::NotImplemented, text));
        }
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        let all = core::mem::take(&mut channel.deliveries);
        if answered {
            self.answer(id, number, Lsn::NONE, &basic::RecoverOk {});
        }
        self.rejected(id, number, all.into_all().map(|(_, unsettled)| unsettled), true);
        Ok(())
    }

    /// Settled for ever. Their queues may go on; where the channel has one bound for all its consumers, any of them may.
    pub(super) fn acknowledged(
        &mut self,
        id: ConnectionId,
        number: u16,
        taken: impl Iterator<Item = Unsettled>,
    ) {
        let mut last: Option<QueueId> = None;
        for unsettled in taken {
            self.free_credit(id, number, &unsettled);
            self.settle_unsettled(&unsettled);
            if let Some(other) = last.replace(unsettled.queue).filter(|other| *other != unsettled.queue) {
                self.serve_queues(&[other]);
            }
        }
        self.serve_queues(last.as_slice());
        if self.channel(id, number).is_some_and(|channel| channel.prefetch_all > 0) {
            self.serve_channel(id, number);
        }
    }

    /// Removes it from its queue.
    pub(super) fn settle_unsettled(&mut self, unsettled: &Unsettled) {
        let Unsettled { lane, position, .. } = *unsettled;
        let Some(entry) = self.state.queue(lane).and_then(|lane| lane.find(position)) else { return };
        self.no_longer_out(unsettled);
        self.commit(Record::Settled { queue: lane, position });
        self.message_event(|| Event::Acknowledged { message: entry.message, queue: lane, position });
    }

    fn no_longer_out(&mut self, unsettled: &Unsettled) {
        let serving = self.serving_mut(unsettled.queue);
        serving.given_out = serving.given_out.saturating_sub(1);
        serving.given_out_bytes = serving.given_out_bytes.saturating_sub(unsettled.body_bytes);
    }

    pub(super) fn free_credit(&mut self, id: ConnectionId, number: u16, unsettled: &Unsettled) {
        let Some(consumer) = unsettled.consumer else { return };
        if let Some(channel) = self.channel_mut(id, number) {
            channel.unsettled = channel.unsettled.saturating_sub(1);
        }
        if let Some(consumer) = self.amqp.consumers.get_mut(&consumer) {
            consumer.unsettled = consumer.unsettled.saturating_sub(1);
        }
    }

    /// Back into their places; the queues that have them. What has come back too often goes away.
    pub(super) fn return_all(&mut self, taken: impl Iterator<Item = Unsettled>) -> Vec<QueueId> {
        let mut queues = Vec::new();
        let mut too_often = Vec::new();
        for unsettled in taken {
            let Unsettled { queue, lane, position, .. } = unsettled;
            let Some(entry) = self.state.queue(lane).and_then(|lane| lane.find(position)) else { continue };
            if let Some(limit) = self.counts_returns(queue) {
                let returns = self.state.queue(lane).map_or(0, |lane| lane.returns_of(position));
                if u64::from(returns) >= limit {
                    reached!("delivered too often");
                    too_often.push(unsettled);
                    continue;
                }
                self.commit(Record::Returned { queue: lane, position, returns: returns.saturating_add(1) });
            }
            self.no_longer_out(&unsettled);
            reached!("message requeued");
            let serving = self.serving_mut(queue);
            let its_lane = serving.lane_mut((lane.0 - queue.0) as usize);
            its_lane.returned.insert(position);
            note(&mut queues, queue);
            self.message_event(|| Event::Requeued { message: entry.message, queue: lane, position });
        }
        for unsettled in too_often {
            self.leave(&unsettled, Reason::DeliveryLimit);
            note(&mut queues, unsettled.queue);
        }
        queues
    }

    /// Of a queue that counts how often its messages come back: how often they may (`x-delivery-limit`).
    fn counts_returns(&self, queue: QueueId) -> Option<u64> {
        let arguments = &self.state.declared(queue)?.arguments;
        arguments.delivery_limit.or(arguments.quorum.then_some(u64::MAX))
    }

    /// Away: dead-lettered, where the queue says so; the queues that may go on.
    fn give_away(&mut self, taken: impl Iterator<Item = Unsettled>) -> Vec<QueueId> {
        let mut queues = Vec::new();
        for unsettled in taken {
            self.leave(&unsettled, Reason::Rejected);
            note(&mut queues, unsettled.queue);
        }
        queues
    }

    /// Leaves its queue without having been acknowledged.
    fn leave(&mut self, unsettled: &Unsettled, reason: Reason) {
        let Unsettled { queue, lane, position, .. } = *unsettled;
        let Some(entry) = self.state.queue(lane).and_then(|lane| lane.find(position)) else { return };
        self.no_longer_out(unsettled);
        self.dead_letter(queue, lane, &entry, reason);
    }
}

fn note(queues: &mut Vec<QueueId>, queue: QueueId) {
    if !queues.contains(&queue) {
        queues.push(queue);
    }
}

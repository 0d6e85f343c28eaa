//! Transactions (§1.9): publishes and acknowledgements of a channel take effect together, in one batch of the log, or
//! not at all.

use super::channel::Unsettled;
use super::fault::Fault;
use super::publishing::{Content, name_of};
use super::wire::method::tx;
use crate::broker::Broker;
use crate::ids::{ConnectionId, Lsn, QueueId};
use crate::marks::reached;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// Bytes of one record beside the message in it, at the most.
const RECORD_BYTES: u64 = 1024;

/// Bytes of the record of something settled or given back, at the most.
const SETTLEMENT_BYTES: u64 = 64;

/// What a channel has done since the last commit.
#[derive(Default)]
pub(crate) struct Transaction {
    messages: Vec<Content>,
    bytes: u64,
    acknowledged: Vec<(u64, Unsettled)>,
    /// With whether they go back.
    rejected: Vec<(u64, Unsettled, bool)>,
}

impl Transaction {
    pub fn publish(&mut self, content: Content) {
        self.bytes += RECORD_BYTES + content.bytes() as u64;
        self.messages.push(content);
    }

    pub fn acknowledge(&mut self, taken: Vec<(u64, Unsettled)>) {
        self.acknowledged.extend(taken);
    }

    /// What was acknowledged or rejected and not committed.
    pub fn into_settled(self) -> impl Iterator<Item = (u64, Unsettled)> {
        let rejected = self.rejected.into_iter().map(|(tag, unsettled, _)| (tag, unsettled));
        self.acknowledged.into_iter().chain(rejected)
    }

    pub fn reject(&mut self, taken: Vec<(u64, Unsettled)>, requeue: bool) {
        self.rejected.extend(taken.into_iter().map(|(tag, unsettled)| (tag, unsettled, requeue)));
    }
}

impl Broker {
    pub(super) fn on_tx_commit(&mut self, id: ConnectionId, number: u16) -> Result<(), Fault> {
        let Some(channel) = self.channel(id, number) else { return Ok(()) };
        let Some(transaction) = &channel.transaction else {
            return Err(Fault::precondition("channel is not transactional"));
        };
        let most = self.log.record_bytes_max() / 2;
        let rejected = transaction.rejected.iter().map(|rejected| self.bytes_to_reject(rejected));
        let bytes = transaction.bytes
            + SETTLEMENT_BYTES * transaction.acknowledged.len() as u64
            + rejected.sum::<u64>();
        if bytes > most {
            let text = format!(
                "the transaction takes about {bytes} bytes of the log; {most} is the most (half of segment_bytes)"
            );
            return Err(Fault::precondition(text));
        }
        let mut queues = self.check_bounds(id, &transaction.messages)?;
        let transaction = self.channel_mut(id, number).and_then(|channel| channel.transaction.take());
        if let Some(channel) = self.channel_mut(id, number) {
            channel.transaction = Some(Transaction::default());
        }
        let Transaction { messages, acknowledged, rejected, .. } = transaction.unwrap_or_default();
        reached!("transaction committed");
        // All of it goes into one batch, which survives a crash as a whole or not at all.
        self.log.open_group(bytes);
        // A lack of room does not hold a message of it: that would tear the transaction.
        let held = core::mem::replace(&mut self.transacting, true);
        let mut published = Ok(());
        for content in &messages {
            published = published.and(self.publish_checked(id, number, content).map(|_| ()));
        }
        // Nobody gets any of it before the commit is durable.
        let last = self.log.last();
        queues.iter().for_each(|queue| self.serving_mut(*queue).hold = last);
        self.acknowledged(id, number, acknowledged.into_iter().map(|(_, unsettled)| unsettled));
        for (_, unsettled, requeue) in rejected {
            self.free_credit(id, number, &unsettled);
            queues.extend(self.given_up([unsettled].into_iter(), requeue));
        }
        self.log.close_group();
        self.transacting = held;
        let last = self.log.last();
        self.answer(id, number, last, &tx::CommitOk {});
        self.serve_queues(&queues);
        published
    }

    /// Bytes of the log that a rejected delivery may take: it may go on as a dead letter.
    fn bytes_to_reject(&self, (_, unsettled, requeue): &(u64, Unsettled, bool)) -> u64 {
        let declared = self.state.declared(unsettled.queue);
        let dead_letters = declared.is_some_and(|d| d.arguments.dead_letter_exchange.is_some());
        if *requeue || !dead_letters {
            return SETTLEMENT_BYTES;
        }
        let entry = self.state.queue(unsettled.lane).and_then(|lane| lane.find(unsettled.position));
        let message = entry.and_then(|entry| self.state.messages.message(entry.message));
        // What is added to the properties (x-death) is about as much as they have already.
        let bytes = message.map_or(0, |message| message.body().len() + 2 * message.properties().len());
        RECORD_BYTES + bytes as u64
    }

    /// The queues that the messages go to. Every message has to find its exchange, and every queue to take what is for
    /// it: a commit says so for all of them.
    fn check_bounds(&self, id: ConnectionId, messages: &[Content]) -> Result<Vec<QueueId>, Fault> {
        let vhost = self.peer(id).vhost;
        let mut more: BTreeMap<QueueId, (u64, u64)> = BTreeMap::new();
        for content in messages {
            self.exchange_for(vhost, content)?;
            let publish = content.publish();
            let exchange = name_of(publish.exchange);
            let routed =
                self.route_amqp(vhost, exchange, publish.routing_key.as_bytes(), &content.properties);
            for queue in routed.into_iter().flat_map(|routed| routed.queues) {
                let (count, bytes) = more.entry(queue).or_default();
                (*count, *bytes) = (*count + 1, *bytes + content.body.len() as u64);
                if self.would_refuse(queue, *count, *bytes) {
                    reached!("transaction refused");
                    let name = self.state.declared(queue).map_or("", |declared| &declared.name);
                    return Err(Fault::precondition(format!(
                        "queue '{name}' in vhost '/' is at its bound (x-max-length, x-max-length-bytes); nothing of the \
                         transaction was done"
                    )));
                }
            }
        }
        Ok(more.into_keys().collect())
    }

    pub(super) fn on_tx_rollback(&mut self, id: ConnectionId, number: u16) -> Result<(), Fault> {
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        let Some(transaction) = channel.transaction.replace(Transaction::default()) else {
            channel.transaction = None;
            return Err(Fault::precondition("channel is not transactional"));
        };
        reached!("transaction rolled back");
        // What was acknowledged is as it was before; it is not delivered again (§1.9.2.5).
        channel.deliveries.put_back(transaction.into_settled());
        self.answer(id, number, Lsn::NONE, &tx::RollbackOk {});
        Ok(())
    }
}

//! Queues that are emptied or go: Purge, Delete, the end of their connection, their last consumer, their time.

use super::fault::Fault;
use super::wire::method::queue;
use crate::broker::{Broker, Work};
use crate::durable::gate::Waiter;
use crate::durable::record::Record;
use crate::durable::state::topology::lanes;
use crate::durable::topology::Topology;
use crate::event::{DropReason, Event};
use crate::ids::{ConnectionId, Lsn, QueueId, QueuePosition};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Broker {
    pub(super) fn on_queue_purge(
        &mut self,
        id: ConnectionId,
        number: u16,
        purge: &queue::Purge<'_>,
    ) -> Result<(), Fault> {
        let queue = self.queue_for(id, number, purge.queue)?;
        self.serve_if_listed(queue);
        let (count, wait) = self.purge(queue);
        self.touch_queue(queue);
        if !purge.no_wait {
            let message_count = u32::try_from(count).unwrap_or(u32::MAX);
            self.answer(id, number, wait, &queue::PurgeOk { message_count });
        }
        Ok(())
    }

    /// Everything that is not on its way to a consumer goes; how much, and by which record.
    fn purge(&mut self, queue: QueueId) -> (u64, Lsn) {
        let Some(declared) = self.state.declared(queue) else { return (0, Lsn::NONE) };
        let (changed, spec) = (declared.changed, declared.spec.clone());
        let (mut count, mut wait) = (0, changed);
        for lane_id in lanes(queue, &spec) {
            let number = (lane_id.0 - queue.0) as usize;
            let lane = self.serving_mut(queue).lane_mut(number);
            let returned: Vec<QueuePosition> = core::mem::take(&mut lane.returned).into_iter().collect();
            let entries = self.state.queue(lane_id).expect("a declared queue has its lanes");
            let (from, to) = (self.amqp.serving[&queue].lanes[number].cursor, entries.next());
            let behind = entries.iter_from(from).count() as u64;
            for position in returned {
                if self.state.is_queued(lane_id, position) {
                    count += 1;
                    wait = wait.max(self.commit(Record::Settled { queue: lane_id, position }));
                }
            }
            if behind > 0 {
                count += behind;
                wait = wait.max(self.commit(Record::RangeSettled { queue: lane_id, from, to }));
            }
            self.serving_mut(queue).lane_mut(number).cursor = to;
        }
        self.counters.purged += count;
        self.set_expiry(queue, None);
        (count, wait)
    }

    pub(super) fn on_queue_delete(
        &mut self,
        id: ConnectionId,
        number: u16,
        delete: &queue::Delete<'_>,
    ) -> Result<(), Fault> {
        let queue = match self.queue_for(id, number, delete.queue) {
            Ok(queue) => Some(queue),
            // As in RabbitMQ what is not there is deleted with success.
            Err(fault) if fault.code == super::wire::ReplyCode::NotFound && !delete.queue.is_empty() => None,
            Err(fault) => return Err(fault),
        };
        let (count, wait) = match queue {
            None => (0, self.amqp.last_deletion),
            Some(queue) => {
                self.serve_if_listed(queue);
                let name = self.state.declared(queue).map(|declared| Arc::clone(&declared.name));
                let name = name.unwrap_or_default();
                let ready = self.state.message_count(queue);
                let serving = self.serving_mut(queue);
                if delete.if_unused && serving.has_consumers() {
                    return Err(Fault::precondition(format!("queue '{name}' in vhost '/' in use")));
                }
                if delete.if_empty && ready > 0 {
                    return Err(Fault::precondition(format!("queue '{name}' in vhost '/' not empty")));
                }
                let count = ready.saturating_sub(serving.given_out);
                (count, self.delete_declared(queue))
            }
        };
        if !delete.no_wait {
            let message_count = u32::try_from(count).unwrap_or(u32::MAX);
            self.answer(id, number, wait, &queue::DeleteOk { message_count });
        }
        Ok(())
    }

    /// A queue goes, with its messages and bindings; its consumers are told. By which record.
    pub(super) fn delete_declared(&mut self, queue: QueueId) -> Lsn {
        let Some(declared) = self.state.declared(queue) else { return self.amqp.last_deletion };
        let (vhost, spec) = (declared.vhost, declared.spec.clone());
        let sources: Vec<Arc<str>> =
            declared.bindings.iter().map(|binding| Arc::clone(&binding.source)).collect();
        self.report_lost(queue, &spec);
        let lsn = self.commit(Record::Topology(Topology::QueueDeleted { queue }));
        self.amqp.last_deletion = self.amqp.last_deletion.max(lsn);
        if let Some(serving) = self.amqp.serving.remove(&queue) {
            if let Some(waits_for) = serving.waits_for {
                self.gate.forget(waits_for, Waiter::Queue(queue));
            }
            serving.expiry.map(|at| self.amqp.expiries.remove(&(at, queue)));
            serving.idle.map(|at| self.amqp.idle.remove(&(at, queue)));
            self.cancel_consumers(serving.consumers.into_iter().map(|(_, consumer)| consumer).collect());
            for get in serving.gets {
                self.get_is_answered(queue, &get);
                self.answer(get.connection, get.channel, Lsn::NONE, &super::wire::method::basic::GetEmpty {});
            }
        }
        self.bury_later();
        sources.iter().for_each(|source| self.unused_exchange_goes(vhost, source));
        lsn
    }

    fn report_lost(&mut self, queue: QueueId, spec: &crate::durable::topology::QueueSpec) {
        self.counters.dropped_queue_end += self.state.message_count(queue);
        if !self.settings.message_events {
            return;
        }
        for lane in lanes(queue, spec) {
            let entries = self.state.queue(lane).expect("a declared queue has its lanes");
            let lost: Vec<_> = entries.iter().map(|entry| entry.message).collect();
            for message in lost {
                let reason = DropReason::QueueDeleted;
                self.message_event(|| Event::Dropped { message: Some(message), queue: lane, reason });
            }
        }
    }

    /// What a restart means to declared queues: all that may have been delivered counts as delivered, expiry runs.
    pub(crate) fn begin_serving_queues(&mut self) {
        let all = self.state.vhosts.iter().flat_map(|host| host.queues.values());
        let all: Vec<QueueId> = all.copied().collect();
        for queue in all {
            let Some(declared) = self.state.declared(queue) else { continue };
            let spec = declared.spec.clone();
            for lane_id in lanes(queue, &spec) {
                let lane = self.state.queue_mut(lane_id).expect("a declared queue has its lanes");
                let recorded = lane.horizon.recorded();
                let horizon = recorded.min(lane.next());
                lane.mark_sent_to(horizon);
                self.serving_mut(queue).lane_mut((lane_id.0 - queue.0) as usize).old = horizon;
                if horizon < recorded {
                    self.commit(Record::HorizonMoved { queue: lane_id, position: horizon });
                }
            }
            self.touch_queue(queue);
            self.work.push_back(Work::Serve(queue));
        }
    }
}

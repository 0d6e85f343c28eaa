//! Consumers and Basic.Get: who takes from queues, and how much (§1.8.3.1 to §1.8.3.5, §1.8.3.10).

use super::delaying::is_hidden;
use super::fault::Fault;
use super::publishing::{DIRECT_REPLY_TO, name_of};
use super::serving::Get;
use super::wire::method::basic;
use super::wire::{ReplyCode, ShortStr, Table, Value};
use super::{Consumer, ConsumerId};
use crate::broker::Broker;
use crate::connection::Reply;
use crate::ids::{ConnectionId, Lsn, QueueId};
use crate::marks::reached;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

impl Broker {
    pub(super) fn on_qos(&mut self, id: ConnectionId, number: u16, qos: &basic::Qos) -> Result<(), Fault> {
        if qos.prefetch_size != 0 {
            let text = format!("prefetch_size!=0 ({})", qos.prefetch_size);
            return Err(Fault::new(ReplyCode::NotImplemented, text));
        }
        if let Some(channel) = self.channel_mut(id, number) {
            match qos.global {
                true => channel.prefetch_all = qos.prefetch_count,
                false => channel.prefetch = qos.prefetch_count,
            }
        }
        self.answer(id, number, Lsn::NONE, &basic::QosOk {});
        // The bound may have moved past those that wait.
        self.serve_channel(id, number);
        Ok(())
    }

    pub(super) fn on_consume(
        &mut self,
        id: ConnectionId,
        number: u16,
        consume: &basic::Consume<'_>,
    ) -> Result<(), Fault> {
        if consume.queue.as_bytes() == DIRECT_REPLY_TO {
            return self.consume_replies(id, number, consume);
        }
        let queue = self.queue_for(id, number, consume.queue)?;
        let tag = self.consumer_tag(id, number, consume.consumer_tag)?;
        let single = self.state.declared(queue).is_some_and(|d| d.arguments.single_active_consumer);
        let serving = self.serving_mut(queue);
        if serving.exclusive_consumer
            || (consume.exclusive && single)
            || (consume.exclusive && serving.has_consumers())
        {
            let name = self.state.declared(queue).map_or("", |declared| &declared.name);
            let text = format!("queue '{name}' in vhost '/' in exclusive use");
            return Err(Fault::refused(text));
        }
        serving.exclusive_consumer = consume.exclusive;
        let priority = consume.arguments.get("x-priority").map(Value::as_integer);
        let priority = match priority {
            None => 0,
            Some(Some(priority)) => priority,
            Some(None) => return Err(Fault::precondition("invalid arg 'x-priority': it must be an integer")),
        };
        let consumer = self.amqp.next_consumer();
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        let prefetch = channel.prefetch;
        channel.consumers.insert(tag.clone(), consumer);
        self.amqp.consumers.insert(
            consumer,
            Consumer {
                connection: id,
                channel: number,
                tag: tag.clone(),
                queue,
                no_ack: consume.no_ack,
                prefetch,
                unsettled: 0,
                accepted: consume.no_wait,
            },
        );
        self.add_to_serving(queue, consumer, priority);
        if !consume.no_wait {
            let consumer_tag = ShortStr::new(&tag).unwrap_or_default();
            let ok = super::connection::encoded(number, &basic::ConsumeOk { consumer_tag });
            let wait = self.state.declared(queue).map_or(Lsn::NONE, |declared| declared.changed);
            self.reply(id, wait, Reply::Consuming(ok, consumer));
        }
        self.serve_queue(queue);
        Ok(())
    }

    /// Consume-Ok has left: deliveries may go.
    pub(crate) fn consumer_accepted(&mut self, consumer: ConsumerId) {
        if let Some(consumer) = self.amqp.consumers.get_mut(&consumer) {
            consumer.accepted = true;
            let queue = consumer.queue;
            self.serve_queue(queue);
        }
    }

    fn consumer_tag(&mut self, id: ConnectionId, number: u16, tag: ShortStr<'_>) -> Result<Box<[u8]>, Fault> {
        if tag.is_empty() {
            let name = self.amqp.next_name();
            return Ok(format!("amq.ctag-{:016x}-{name}", self.seed.client_id_key()).into_bytes().into());
        }
        let channel = self.channel(id, number);
        let replies = |channel: &super::channel::Channel| {
            channel.replies.as_ref().is_some_and(|(its, _)| **its == *tag.as_bytes())
        };
        if channel.is_some_and(|c| c.consumers.contains_key(tag.as_bytes()) || replies(c)) {
            let text = format!("attempt to reuse consumer tag '{tag}'");
            return Err(Fault::new(ReplyCode::NotAllowed, text));
        }
        Ok(tag.as_bytes().into())
    }

    /// A consumer of direct replies: there is no queue.
    fn consume_replies(
        &mut self,
        id: ConnectionId,
        number: u16,
        consume: &basic::Consume<'_>,
    ) -> Result<(), Fault> {
        if !consume.no_ack {
            return Err(Fault::precondition("reply consumer cannot acknowledge"));
        }
        if self.channel(id, number).is_some_and(|channel| channel.replies.is_some()) {
            return Err(Fault::precondition("reply consumer already set"));
        }
        let tag = self.consumer_tag(id, number, consume.consumer_tag)?;
        let name = self.amqp.next_name();
        let key = self.seed.client_id_key();
        let prefix = core::str::from_utf8(DIRECT_REPLY_TO).unwrap_or("");
        let address: Box<[u8]> = format!("{prefix}.{key:016x}.{name}").into_bytes().into();
        self.amqp.reply_addresses.insert(address.clone(), (id, number));
        if let Some(channel) = self.channel_mut(id, number) {
            channel.replies = Some((tag.clone(), address));
        }
        if !consume.no_wait {
            let consumer_tag = ShortStr::new(&tag).unwrap_or_default();
            self.answer(id, number, Lsn::NONE, &basic::ConsumeOk { consumer_tag });
        }
        Ok(())
    }

    /// Whether it is the address for direct replies, or one that somebody waits at.
    pub(super) fn is_reply_address(&self, name: &[u8]) -> bool {
        name == DIRECT_REPLY_TO || self.amqp.reply_addresses.contains_key(name)
    }

    pub(super) fn on_cancel(
        &mut self,
        id: ConnectionId,
        number: u16,
        cancel: &basic::Cancel<'_>,
    ) -> Result<(), Fault> {
        if let Some(channel) = self.channel_mut(id, number) {
            let tag = cancel.consumer_tag.as_bytes();
            if let Some((_, address)) = channel.replies.take_if(|(its, _)| **its == *tag) {
                self.amqp.reply_addresses.remove(&address);
            } else if let Some(consumer) = channel.consumers.remove(tag) {
                self.remove_consumer(consumer);
            }
        }
        if !cancel.no_wait {
            let consumer_tag = cancel.consumer_tag;
            self.answer(id, number, Lsn::NONE, &basic::CancelOk { consumer_tag });
        }
        Ok(())
    }

    /// A consumer goes. What it has not settled stays with its channel.
    pub(super) fn remove_consumer(&mut self, id: ConsumerId) {
        let Some(consumer) = self.amqp.consumers.remove(&id) else { return };
        let queue = consumer.queue;
        if !self.remove_from_serving(queue, id) {
            return;
        }
        let declared = self.state.declared(queue);
        let goes = declared.is_some_and(|declared| declared.spec.auto_delete);
        if goes && !self.serving_mut(queue).has_consumers() {
            reached!("auto-delete queue gone");
            self.delete_declared(queue);
        } else {
            self.serve_queue(queue);
        }
    }

    pub(super) fn on_get(
        &mut self,
        id: ConnectionId,
        number: u16,
        get: &basic::Get<'_>,
    ) -> Result<(), Fault> {
        let queue = self.queue_for(id, number, get.queue)?;
        self.serve_if_listed(queue);
        let no_ack = get.no_ack;
        let serving = self.serving_mut(queue);
        serving.gets.push_back(Get { connection: id, channel: number, no_ack });
        if let Some(channel) = self.channel_mut(id, number) {
            channel.gets.push(queue);
        }
        self.touch_queue(queue);
        self.serve_queue(queue);
        Ok(())
    }

    /// Who asked is answered, or is about to be.
    pub(super) fn get_is_answered(&mut self, queue: QueueId, get: &Get) {
        if let Some(channel) = self.channel_mut(get.connection, get.channel)
            && let Some(at) = channel.gets.iter().position(|asked| *asked == queue)
        {
            channel.gets.remove(at);
        }
    }

    /// The queue of that name, or the last that the channel declared; this connection must be allowed to use it.
    pub(super) fn queue_for(
        &self,
        id: ConnectionId,
        number: u16,
        name: ShortStr<'_>,
    ) -> Result<QueueId, Fault> {
        let last = self.channel(id, number).and_then(|channel| channel.last_queue.as_deref());
        let name = match (name.is_empty(), last) {
            (false, _) => name_of(name),
            (true, Some(last)) => last,
            (true, None) => return Err(Fault::new(ReplyCode::NotFound, "no previously declared queue")),
        };
        let found = self.state.vhosts[self.peer(id).vhost].queues.get(name).copied();
        let found = found.filter(|_| !is_hidden(name));
        let queue = found.ok_or_else(|| Fault::no("queue", name))?;
        self.check_owner(id, queue, name)?;
        Ok(queue)
    }

    /// A queue that belongs to another connection is not to be touched.
    pub(super) fn check_owner(&self, id: ConnectionId, queue: QueueId, name: &str) -> Result<(), Fault> {
        let exclusive = self.state.declared(queue).is_some_and(|declared| declared.spec.exclusive);
        if exclusive && !self.peer(id).exclusive.contains(&queue) {
            let text = format!(
                "cannot obtain exclusive access to locked queue '{name}' in vhost '/'. It could be originally declared on \
                 another connection or the exclusive property value does not match that of the original declaration."
            );
            return Err(Fault::new(ReplyCode::ResourceLocked, text));
        }
        Ok(())
    }

    /// The consumers of a queue that goes are told, if they understand.
    pub(super) fn cancel_consumers(&mut self, consumers: Vec<ConsumerId>) {
        for id in consumers {
            let Some(consumer) = self.amqp.consumers.remove(&id) else { continue };
            let Consumer { connection, channel: number, tag, .. } = consumer;
            if let Some(channel) = self.channel_mut(connection, number) {
                channel.consumers.remove(&tag);
            }
            if self.find_peer(connection).is_some_and(|peer| peer.takes_cancel) {
                let consumer_tag = ShortStr::new(&tag).unwrap_or_default();
                let cancel = basic::Cancel { consumer_tag, no_wait: true };
                self.answer(connection, number, Lsn::NONE, &cancel);
            }
        }
    }
}

/// A table's bytes, as they are remembered.
pub(super) fn encoded_table(table: &Table) -> Box<[u8]> {
    table.encode().as_ref().into()
}

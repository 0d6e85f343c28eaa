//! The methods of a channel, each to where it is handled; the channel's beginning and end; what is parked of it.

use super::channel::Channel;
use super::fault::Fault;
use super::transaction::Transaction;
use super::wire::method::{MethodId, access, basic, channel, confirm, tx};
use super::wire::{Frame, Method, ReplyCode};
use crate::broker::Broker;
use crate::ids::{ConnectionId, Lsn};
use crate::output::{CloseKind, CloseReason};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;

impl Broker {
    pub(super) fn channel_method(
        &mut self,
        id: ConnectionId,
        number: u16,
        method: &Method<'_>,
    ) -> Result<(), Fault> {
        match method {
            Method::BasicPublish(_) => unreachable!("it is handed on with its frame"),
            Method::BasicAck(ack) => self.on_ack(id, number, ack),
            Method::BasicNack(nack) => {
                self.on_nack(id, number, nack.delivery_tag.0, nack.multiple, nack.requeue)
            }
            Method::BasicReject(reject) => {
                self.on_nack(id, number, reject.delivery_tag.0, false, reject.requeue)
            }
            Method::BasicGet(get) => self.on_get(id, number, get),
            Method::BasicQos(qos) => self.on_qos(id, number, qos),
            Method::BasicConsume(consume) => self.on_consume(id, number, consume),
            Method::BasicCancel(cancel) => self.on_cancel(id, number, cancel),
            Method::BasicCancelOk(_) => Ok(()),
            Method::BasicRecover(recover) => self.on_recover(id, number, recover.requeue, true),
            Method::BasicRecoverAsync(recover) => self.on_recover(id, number, recover.requeue, false),
            Method::ChannelOpen(_) => self.on_channel_open(id, number),
            Method::ChannelFlow(flow) => self.on_flow(id, number, flow.active),
            Method::ChannelFlowOk(_) => Ok(()),
            Method::ChannelClose(_) => {
                self.end_channel(id, number);
                self.answer(id, number, Lsn::NONE, &channel::CloseOk {});
                Ok(())
            }
            Method::ChannelCloseOk(_) => Ok(()),
            Method::AccessRequest(_) => {
                self.answer(id, number, Lsn::NONE, &access::RequestOk { ticket: 1 });
                Ok(())
            }
            Method::ExchangeDeclare(declare) => self.on_exchange_declare(id, number, declare),
            Method::ExchangeDelete(delete) => self.on_exchange_delete(id, number, delete),
            Method::ExchangeBind(bind) => self.on_exchange_bind(id, number, bind),
            Method::ExchangeUnbind(unbind) => self.on_exchange_unbind(id, number, unbind),
            Method::QueueDeclare(declare) => self.on_queue_declare(id, number, declare),
            Method::QueueBind(bind) => self.on_queue_bind(id, number, bind),
            Method::QueueUnbind(unbind) => self.on_queue_unbind(id, number, unbind),
            Method::QueuePurge(purge) => self.on_queue_purge(id, number, purge),
            Method::QueueDelete(delete) => self.on_queue_delete(id, number, delete),
            Method::ConfirmSelect(select) => self.on_confirm_select(id, number, select),
            Method::TxSelect(_) => self.on_tx_select(id, number),
            Method::TxCommit(_) => self.on_tx_commit(id, number),
            Method::TxRollback(_) => self.on_tx_rollback(id, number),
            Method::ConnectionStartOk(_)
            | Method::ConnectionSecureOk(_)
            | Method::ConnectionTuneOk(_)
            | Method::ConnectionOpen(_)
            | Method::ConnectionClose(_)
            | Method::ConnectionCloseOk(_)
            | Method::ConnectionUpdateSecret(_) => {
                unreachable!("decoding sees to it that methods of the connection are on channel 0")
            }
        }
    }

    fn on_channel_open(&mut self, id: ConnectionId, number: u16) -> Result<(), Fault> {
        if self.channel(id, number).is_some() {
            return Err(Fault::new(ReplyCode::ChannelError, "second 'channel.open' seen"));
        }
        if !self.admits_channel(id, number) {
            let text = format!("channel {number} is above the negotiated channel_max");
            return Err(Fault::new(ReplyCode::NotAllowed, text));
        }
        if let Some(peer) = self.peer_mut(id) {
            peer.channels.insert(number, Channel::default());
        }
        self.answer(id, number, Lsn::NONE, &channel::OpenOk {});
        Ok(())
    }

    /// The client wants deliveries, or none.
    fn on_flow(&mut self, id: ConnectionId, number: u16, active: bool) -> Result<(), Fault> {
        if let Some(channel) = self.channel_mut(id, number) {
            channel.stopped = !active;
        }
        self.answer(id, number, Lsn::NONE, &channel::FlowOk { active });
        if active {
            self.serve_channel(id, number);
        }
        Ok(())
    }

    fn on_confirm_select(
        &mut self,
        id: ConnectionId,
        number: u16,
        select: &confirm::Select,
    ) -> Result<(), Fault> {
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        if channel.transaction.is_some() {
            return Err(Fault::precondition("cannot switch from tx to confirm mode"));
        }
        channel.confirms.get_or_insert(0);
        if !select.no_wait {
            self.answer(id, number, Lsn::NONE, &confirm::SelectOk {});
        }
        Ok(())
    }

    fn on_tx_select(&mut self, id: ConnectionId, number: u16) -> Result<(), Fault> {
        let Some(channel) = self.channel_mut(id, number) else { return Ok(()) };
        if channel.confirms.is_some() {
            return Err(Fault::precondition("cannot switch from confirm to tx mode"));
        }
        channel.transaction.get_or_insert_default();
        self.answer(id, number, Lsn::NONE, &tx::SelectOk {});
        Ok(())
    }

    /// Closes the channel: the client is told why; what it sends until it answers is passed by.
    pub(super) fn close_channel(&mut self, id: ConnectionId, number: u16, fault: &Fault, method: MethodId) {
        self.counters.protocol_errors += 1;
        self.end_channel(id, number);
        let text = fault.code.text(&fault.text);
        let close = channel::Close {
            reply_code: fault.code.number(),
            reply_text: text.as_short_str(),
            class_id: method.class,
            method_id: method.method,
        };
        self.answer(id, number, Lsn::NONE, &close);
        if let Some(peer) = self.peer_mut(id) {
            peer.channels.insert(number, Channel { closing: true, ..Channel::default() });
        }
        let text = format!("{text}").into();
        let reason = CloseReason { kind: CloseKind::ProtocolError, clause: "", text, client: None };
        self.event(|| crate::event::Event::AmqpFault { connection: id, channel: number, reason });
    }

    /// The channel is over: its consumers go, what it has not settled goes back to where it was.
    pub(super) fn end_channel(&mut self, id: ConnectionId, number: u16) {
        let Some(peer) = self.peer_mut(id) else { return };
        let Some(channel) = peer.channels.remove(&number) else { return };
        peer.parked_channels.remove(&number);
        self.counters.dropped_held += u64::from(channel.held.is_some());
        if let Some((_, address)) = &channel.replies {
            self.amqp.reply_addresses.remove(address);
        }
        let consumers: Vec<_> = channel.consumers.values().copied().collect();
        // First what it held is back in its place, then others are served.
        let mut deliveries = channel.deliveries;
        deliveries.put_back(channel.transaction.into_iter().flat_map(Transaction::into_settled));
        for queue in channel.gets {
            if let Some(serving) = self.amqp.serving.get_mut(&queue) {
                serving.gets.retain(|get| (get.connection, get.channel) != (id, number));
            }
        }
        let queues = self.return_all(deliveries.into_all().map(|(_, unsettled)| unsettled));
        for consumer in consumers {
            self.remove_consumer(consumer);
        }
        self.serve_queues(&queues);
    }

    /// Whether the frame need not wait behind what is parked of its channel: what settles makes room.
    pub(super) fn passes_parked(&self, frame: &Frame) -> bool {
        [basic::Ack::ID, basic::Nack::ID, basic::Reject::ID].iter().any(|id| frame.is_method(*id))
    }

    /// Keeps a frame until what was parked before it has gone on.
    pub(super) fn park_frame(&mut self, id: ConnectionId, frame: &Frame) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(peer) = &mut connection.amqp else { return };
        connection.parked_bytes += frame.payload.len() + size_of::<Frame>();
        peer.parked.push_back(Frame { payload: Bytes::copy_from_slice(&frame.payload), ..*frame });
    }

    /// There is room: publishes that were held go on, and what came behind them.
    pub(crate) fn unpark_amqp(&mut self, id: ConnectionId) {
        let Some(peer) = self.peer_mut(id) else { return };
        let channels: Vec<u16> = peer.parked_channels.iter().copied().collect();
        for number in channels {
            if !self.publish_again(id, number) {
                return;
            }
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.parked_bytes = 0;
        let Some(peer) = &mut connection.amqp else { return };
        let frames: VecDeque<Frame> = core::mem::take(&mut peer.parked);
        for frame in frames {
            if self.find_peer(id).is_none() {
                return;
            }
            self.frame(id, frame);
        }
        if self.find_peer(id).is_some_and(|peer| peer.parked_channels.is_empty()) {
            self.parked.remove(&id);
        }
        self.resume_reading(id);
    }
}

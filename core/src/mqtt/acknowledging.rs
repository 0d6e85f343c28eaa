//! What a subscriber acknowledges: PUBACK, PUBREC, PUBCOMP (§4.3).

use super::packet::{AckKind, PacketId, QoS, ReasonCode};
use crate::broker::Broker;
use crate::event::Event;
use crate::ids::{ConnectionId, Lsn, QueueId, SessionId};
use crate::marks::reached;
use crate::queue::{Entry, Stage};

impl Broker {
    pub(super) fn on_acknowledgement(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        kind: AckKind,
        packet_id: PacketId,
        failed: bool,
    ) {
        let attachment = &self.attachments[&session];
        let (queue, cursor, released_to) = (attachment.queue, attachment.cursor, attachment.released_to);
        let found = self.entry_of(queue, packet_id);
        let entry = found.filter(|entry| {
            entry.position < cursor || (entry.stage == Stage::Releasing && entry.position < released_to)
        });
        match (kind, entry.map(|entry| (entry.delivery.qos, entry.stage, entry))) {
            (AckKind::PubAck, Some((QoS::AtLeastOnce, _, entry))) => self.settle(session, queue, &entry),
            // The subscriber does not take it: that is the end of it. [MQTT-4.3.3-4], [MQTT-4.4.0-2]
            (AckKind::PubRec, Some((QoS::ExactlyOnce, Stage::Queued, entry))) if failed => {
                self.settle(session, queue, &entry);
            }
            (AckKind::PubRec, Some((QoS::ExactlyOnce, Stage::Queued, entry))) => {
                let position = entry.position;
                let lsn = self.release_entry(queue, position);
                self.acknowledge(id, AckKind::PubRel, packet_id, lsn);
            }
            (AckKind::PubRec, Some((QoS::ExactlyOnce, _, entry))) => {
                let recorded = self.state.queue(queue).map_or(Lsn::NONE, |queue| queue.recorded_by(&entry));
                self.acknowledge(id, AckKind::PubRel, packet_id, recorded);
            }
            (AckKind::PubRec, None) => self.on_early_pubrec(id, session, found, packet_id, failed),
            (AckKind::PubComp, Some((QoS::ExactlyOnce, Stage::Releasing, entry))) => {
                self.settle(session, queue, &entry);
            }
            // For nothing that is in flight: no place in the window comes from that.
            (AckKind::PubAck | AckKind::PubComp, None) => {}
            (_, Some(_)) => self.wrong_kind(id),
            (AckKind::PubRel | AckKind::UnsubAck, None) => {}
        }
    }

    /// PUBREC for what is not in flight on this connection. It may have been sent on an earlier one:
    ///
    /// 1. PUBLISH, then the connection breaks. 2. The client comes back; its PUBREC arrives before the PUBLISH was
    ///    sent again. 3. Told PUBREL as for something unknown, it forgets the id. 4. PUBLISH comes again: twice.
    fn on_early_pubrec(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        found: Option<Entry>,
        packet_id: PacketId,
        failed: bool,
    ) {
        let attachment = &self.attachments[&session];
        let (queue_id, released_to) = (attachment.queue, attachment.released_to);
        let Some(queue) = self.state.queue(queue_id) else { return };
        let (sent_to, settled) = (queue.sent_to(), queue.last_settlement());
        let sent = found.filter(|entry| entry.position < sent_to && entry.delivery.qos == QoS::ExactlyOnce);
        let wait = match sent.map(|entry| (entry.stage, entry)) {
            Some((Stage::Queued, Entry { position, .. })) if failed => {
                return self.settle_entry(queue_id, position);
            }
            Some((Stage::Queued, Entry { position, .. })) => {
                reached!("early PUBREC");
                if position < released_to {
                    // It is not released again: the PUBREL that answers this counts.
                    self.attachments.get_mut(&session).expect("it was just there").in_flight += 1;
                }
                self.release_entry(queue_id, position)
            }
            Some((Stage::Releasing | Stage::Settled, entry)) => queue.recorded_by(&entry),
            // Not known (any more): the subscriber is helped to forget it, too.
            None => settled,
        };
        let reason = if sent.is_some() { ReasonCode::Success } else { ReasonCode::PacketIdentifierNotFound };
        self.acknowledge_with(id, AckKind::PubRel, packet_id, wait, reason);
    }

    /// The entry that is sent under this identifier and is not settled.
    fn entry_of(&self, queue: QueueId, packet_id: PacketId) -> Option<Entry> {
        let queue = self.state.queue(queue)?;
        let front = queue.front();
        // Fewer than 65,535 positions are in flight, so the identifier names one of them.
        let wanted = u64::from(packet_id.get()) - 1;
        let position = front.plus((wanted + 65_535 - front.0 % 65_535) % 65_535);
        queue.find(position)
    }

    fn settle(&mut self, session: SessionId, queue: QueueId, entry: &Entry) {
        let (message, position) = (entry.message, entry.position);
        self.settle_entry(queue, position);
        self.message_event(|| Event::Acknowledged { message, queue, position });
        let attachment = self.attachments.get_mut(&session).expect("who acknowledges is attached");
        attachment.in_flight -= 1;
        self.pump(session);
    }
}

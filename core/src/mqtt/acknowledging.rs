//! What a subscriber acknowledges: PUBACK, PUBREC, PUBCOMP (§4.3).

use super::packet::{AckKind, PacketId, QoS};
use crate::broker::Broker;
use crate::durable::record::Record;
use crate::event::Event;
use crate::ids::{ConnectionId, QueueId, QueuePosition, SessionId};
use crate::queue::{Entry, Stage};

impl Broker {
    pub(super) fn on_acknowledgement(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        kind: AckKind,
        packet_id: PacketId,
    ) {
        let attachment = &self.attachments[&session];
        let (queue, cursor) = (attachment.queue, attachment.cursor);
        let entry = self.in_flight(queue, cursor, packet_id);
        match (kind, entry.map(|entry| (entry.delivery.qos, entry.stage, entry))) {
            (AckKind::PubAck, Some((QoS::AtLeastOnce, _, entry))) => self.settle(session, queue, &entry),
            (AckKind::PubRec, Some((QoS::ExactlyOnce, Stage::Queued, entry))) => {
                let position = entry.position;
                let lsn = self.commit(Record::Releasing { queue, position });
                self.acknowledge(id, AckKind::PubRel, packet_id, lsn);
            }
            (AckKind::PubRec, Some((QoS::ExactlyOnce, _, entry))) => {
                self.acknowledge(id, AckKind::PubRel, packet_id, entry.lsn);
            }
            (AckKind::PubRec, None) => {
                // Not known (any more): the subscriber is helped to forget it, too.
                let settled =
                    self.state.queue(queue).map_or(crate::ids::Lsn::NONE, |queue| queue.last_settlement());
                self.acknowledge(id, AckKind::PubRel, packet_id, settled);
            }
            (AckKind::PubComp, Some((QoS::ExactlyOnce, Stage::Releasing, entry))) => {
                self.settle(session, queue, &entry);
            }
            // For nothing that is in flight: no place in the window comes from that.
            (AckKind::PubAck | AckKind::PubComp, None) => {}
            (_, Some(_)) => self.wrong_kind(id),
            (AckKind::PubRel | AckKind::UnsubAck, None) => {}
        }
    }

    /// The entry that was sent under this identifier and is not settled.
    fn in_flight(&self, queue: QueueId, cursor: QueuePosition, packet_id: PacketId) -> Option<Entry> {
        let queue = self.state.queue(queue)?;
        let front = queue.front();
        // Fewer than 65,535 positions are in flight, so the identifier names one of them.
        let wanted = u64::from(packet_id.get()) - 1;
        let position = front.plus((wanted + 65_535 - front.0 % 65_535) % 65_535);
        queue.find(position).filter(|_| position < cursor).copied()
    }

    fn settle(&mut self, session: SessionId, queue: QueueId, entry: &Entry) {
        let (message, position) = (entry.message, entry.position);
        self.commit(Record::Settled { queue, position });
        self.message_event(|| Event::Acknowledged { message, queue, position });
        let attachment = self.attachments.get_mut(&session).expect("who acknowledges is attached");
        attachment.in_flight -= 1;
        self.pump(session);
    }
}

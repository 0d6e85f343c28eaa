//! The two lanes of a connection: replies keep their order, an unheld one waits behind a held one; deliveries and
//! PINGRESP pass them, so a slow disk does not cut connections.

use super::{Broker, Work};
use crate::connection::{Connection, Reply};
use crate::durable::gate::Waiter;
use crate::ids::{ConnectionId, Lsn};
use crate::marks::reached;
use crate::output::Output;
use alloc::vec::Vec;

impl Broker {
    /// Sends at once.
    pub(crate) fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.send.put(bytes);
        connection.list(id, &mut self.to_send);
    }

    /// Notes that the connection has something to send.
    pub(crate) fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.list(id, &mut self.to_send);
        }
    }

    /// Sends once `wait` is durable and all replies before have left.
    pub(crate) fn reply(&mut self, id: ConnectionId, wait: Lsn, reply: Reply) {
        let durable = self.log.durable();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if wait <= durable && connection.replies.is_empty() {
            connection.put_reply(&reply);
            connection.list(id, &mut self.to_send);
            return self.reply_left(id, &reply);
        }
        if wait > durable {
            reached!("reply held");
        } else {
            reached!("reply behind a held one");
        }
        let first = connection.replies.is_empty();
        connection.replies.push_back((wait, reply));
        self.log.want(wait);
        if first {
            self.gate.wait(wait, Waiter::Replies(id));
        }
    }

    /// More is durable: whoever waited goes on.
    pub(super) fn pass_gate(&mut self) {
        while let Some(waiter) = self.gate.pass(self.log.durable()) {
            match waiter {
                Waiter::Replies(id) => self.release_replies(id),
                Waiter::Queue(queue) => {
                    if let Some(serving) = self.amqp.serving.get_mut(&queue) {
                        serving.waits_for = None;
                        self.serve_queue(queue);
                    }
                }
                Waiter::Deliveries(session) => {
                    if let Some(attachment) = self.attachments.get_mut(&session) {
                        attachment.waits_for = Lsn::NONE;
                    }
                    self.pump(session);
                }
            }
        }
    }

    fn release_replies(&mut self, id: ConnectionId) {
        let durable = self.log.durable();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut opened = false;
        let mut marks = Vec::new();
        while let Some((wait, _)) = connection.replies.front() {
            if *wait > durable {
                self.gate.wait(*wait, Waiter::Replies(id));
                break;
            }
            let (_, reply) = connection.replies.pop_front().expect("it was just there");
            opened |= matches!(reply, Reply::Opening(_));
            match reply {
                Reply::Confirm { channel, tag, nack: false } => {
                    put_confirms(connection, durable, channel, tag);
                }
                Reply::Consuming(..) | Reply::Goodbye(_) => {
                    connection.put_reply(&reply);
                    marks.push(reply);
                }
                other => connection.put_reply(&other),
            }
        }
        if connection.replies.capacity() > 64 && connection.replies.is_empty() {
            connection.replies = Default::default();
        }
        let session = connection.session();
        self.list(id);
        self.resume_reading(id);
        if let Some(session) = session.filter(|_| opened) {
            self.begin_deliveries(session);
        }
        marks.iter().for_each(|reply| self.reply_left(id, reply));
    }

    /// What comes behind certain replies.
    fn reply_left(&mut self, id: ConnectionId, reply: &Reply) {
        match reply {
            Reply::Consuming(_, consumer) => self.consumer_accepted(*consumer),
            Reply::Goodbye(_) => self.finish_goodbye(id),
            Reply::Short(_) | Reply::Opening(_) | Reply::Long(_) | Reply::Confirm { .. } => {}
        }
    }

    /// Reads no more from the connection until its replies or parked packets are fewer.
    pub(crate) fn pause(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !core::mem::replace(&mut connection.paused, true)
        {
            self.outbox.push(Output::PauseReading { connection: id });
        }
    }

    /// Reads again, if it was paused and nothing stands in the way any more.
    pub(crate) fn resume_reading(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.paused && !connection.is_blocked(&self.settings.limits) {
            connection.paused = false;
            connection.last_received = self.now.monotonic;
            self.outbox.push(Output::ResumeReading { connection: id });
            self.work.push_back(Work::Parse(id));
        }
    }
}

/// A confirm, with those of the same channel that stand behind it in one: a run without a gap.
fn put_confirms(connection: &mut Connection, durable: Lsn, channel: u16, first: u64) {
    let mut tag = first;
    while let Some(&(wait, Reply::Confirm { channel: its, tag: next, nack: false })) =
        connection.replies.front()
        && its == channel
        && next == tag + 1
        && wait <= durable
    {
        reached!("confirmed together");
        tag = next;
        connection.replies.pop_front();
    }
    connection.put_confirm(channel, tag, tag > first, false);
}

//! What happens when a deadline comes: records are written, silent clients closed, sessions expire, work goes on.

use super::{Broker, Ending, Work};
use crate::access::Verdict;
use crate::event::Event;
use crate::ids::ConnectionId;
use crate::mqtt::packet::ReasonCode;
use crate::output::CloseKind;
use crate::time::{Monotonic, Why};

/// To a client that has said who it is in time, and whom nobody could answer.
const LOGIN_TOO_LONG: &str =
    "nobody could check within limits.connect_time who it is: too many logins at once";

/// The wall clock may jump, so a stored expiry is looked at again at least so often.
const EXPIRY_LOOK_MS: u64 = 60_000;

impl Broker {
    pub(super) fn earliest_deadline(&self) -> Option<(Monotonic, Why)> {
        let work = !self.work.is_empty() || !self.fan_outs.is_empty();
        let work = work.then_some((Monotonic(0), Why::Work));
        let in_queues = self.amqp.expiries.first().map(|(at, _)| *at);
        let expiry = self.next_by_wall_clock().into_iter().chain(in_queues).min().map(|at| {
            let ms = at.ms_after(self.now.wall).min(EXPIRY_LOOK_MS);
            (self.now.monotonic.plus_ms(ms), Why::Expiry)
        });
        let retry = self.fetches.deadline().map(|at| (at, Why::Retry));
        let upkeep = self.rest_ends().map(|at| (at, Why::Upkeep));
        let idle = self.amqp.idle.first().map(|(at, _)| (*at, Why::Expiry));
        let own = [work, self.log.deadline(), self.deadlines.first(), expiry, idle, retry, upkeep];
        own.into_iter().flatten().min()
    }

    pub(super) fn deadline_reached(&mut self) {
        while let Some((id, why)) = self.deadlines.pop_due(self.now.monotonic) {
            self.timer_fired(id, why);
        }
        self.end_by_wall_clock();
        self.expire_in_queues();
        self.fetch_again();
        self.end_rest();
        // The disk is not kept waiting: work goes on when what is due is on its way.
        if !self.write_log() {
            self.do_work(self.settings.limits.turn_work);
            self.write_log();
        }
    }

    /// Writes what is due; whether that was anything.
    fn write_log(&mut self) -> bool {
        let segment = self.log.segment();
        let written = self.log.due(self.now, &self.settings, &mut self.outbox);
        let now_in = self.log.segment();
        if now_in != segment {
            self.event(|| Event::SegmentOpened { segment: now_in });
        }
        written
    }

    /// Does so many pieces of work, or a little more: what is begun goes on for a stretch of its own.
    fn do_work(&mut self, budget: usize) {
        let end = self.pieces + budget as u64;
        while self.pieces < end && !self.fan_outs.is_empty() {
            self.go_on_fanning_out(budget);
        }
        // What is put off again while this runs waits for the next turn.
        let mut waiting = self.work.len();
        while self.pieces < end
            && waiting > 0
            && let Some(work) = self.work.pop_front()
        {
            self.pieces += 1;
            waiting -= 1;
            match work {
                Work::Parse(id) => self.go_on_parsing(id),
                Work::Unpark(id) => self.unpark(id),
                Work::Pump(session) => self.pump(session),
                Work::Owed(session) => self.serve_owed(session),
                Work::Serve(queue) => self.serve_listed(queue),
                Work::Upkeep => self.go_on_with_upkeep(),
                Work::Bury => {
                    self.pieces += self.state.bury(budget) as u64;
                    self.burying = !self.state.doomed.is_empty();
                    if self.burying {
                        self.work.push_back(Work::Bury);
                    }
                }
            }
        }
    }

    /// Sets the connection's one timer.
    pub(crate) fn set_timer(&mut self, id: ConnectionId, at: Monotonic, why: Why) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.timer = Some((at, why));
            self.deadlines.set(at, id, why);
        }
    }

    /// Takes the connection's timer back.
    pub(crate) fn clear_timer(&mut self, id: ConnectionId) {
        if let Some((at, why)) = self.connections.get_mut(&id).and_then(|connection| connection.timer.take())
        {
            self.deadlines.clear(at, id, why);
        }
    }

    fn timer_fired(&mut self, id: ConnectionId, why: Why) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.timer = None;
        if why == Why::Handshake && connection.awaits_verdict() {
            return self.verified(id, Verdict::Unavailable { why: LOGIN_TOO_LONG });
        }
        if why == Why::Handshake {
            let text = "the client has not introduced itself within limits.connect_time";
            let reason = self.reason(id, CloseKind::Limit, "§3.1", text.into());
            return self.end(id, Ending::Ordered(reason));
        }
        if connection.amqp.is_some() {
            return self.amqp_timer(id);
        }
        let Some(silence_us) = connection.client.as_ref().and_then(|client| client.silence_us) else {
            return;
        };
        // Whom we do not read cannot be told silent.
        let since = if connection.paused { self.now.monotonic } else { connection.last_received };
        let at = since.plus_us(silence_us);
        if at > self.now.monotonic {
            return self.set_timer(id, at, Why::KeepAlive);
        }
        let text = "silent for one and a half times its keep-alive";
        self.dismiss(id, ReasonCode::KeepAliveTimeout, CloseKind::Lost, "[MQTT-3.1.2-24]", text.into());
    }
}

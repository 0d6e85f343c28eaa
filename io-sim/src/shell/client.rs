//! Clients that keep the rules of MQTT 3.1.1 over simulated connections, now and then misbehave as a peer may, and
//! hold the broker to its promises.

mod link;
mod session;
mod watch;

use super::ledger::Misdeed;
use super::machine::PORT;
use super::scenario::{Deed, ShellClient};
use super::stage::Stage;
use crate::chance::Draws;
use crate::outcome::Checker;
use link::{ALL, Link, News};
use mqttbytes::v4::{Connect, ConnectReturnCode, Packet};
use session::Session;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use turmoil::net::TcpStream;

/// How long a client waits for a connection and for its CONNACK. Nothing of that takes so long unless it is disturbed:
/// but a connection that is taken over is flushed before.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// Longest time until it comes back.
const RECONNECT_MS_MAX: u64 = 300;
/// Pings that a client without a flood may have unanswered.
const PINGS_MAX: u64 = 10;
/// What waits to be sent before it publishes no more.
const OUTBOX_BYTES_MAX: usize = 32 * 1024;

/// A client.
pub(super) struct Client {
    stage: Rc<Stage>,
    index: usize,
    host: usize,
    program: ShellClient,
    draws: Draws,
    deeds: VecDeque<(u64, Deed)>,
    session: Session,
    /// It had a CONNACK.
    known: bool,
    connections: u64,
}

/// One connection's course.
struct Course {
    link: Link,
    /// None while it reads.
    deaf_until_ms: Option<u64>,
    /// It sends nothing more, until then at the latest.
    silent_until_ms: Option<u64>,
    heard_ms: u64,
    ping_ms: u64,
    /// Answers to pings that are to come.
    pings: u64,
    /// It said goodbye, and stays away for so long.
    leaving_ms: Option<u64>,
}

impl Course {
    /// Whether it asks for more answers than it takes.
    fn floods(&self) -> bool {
        self.deaf_until_ms.is_some() && self.pings > PINGS_MAX
    }
}

/// How it goes on when a connection is over.
enum After {
    /// It comes back, a little later.
    Reconnect,
    /// It comes back at once.
    AtOnce,
    /// It comes back after so many milliseconds.
    Later(u64),
}

/// Runs a client for ever.
pub(super) async fn client(stage: Rc<Stage>, index: usize, host: usize) {
    let program = stage.scenario.clients[index].clone();
    let mut client = Client {
        index,
        host,
        draws: stage.draws("client", index as u64),
        deeds: program.deeds.iter().cloned().collect(),
        session: Session::new(index, program.clean, program.window),
        program,
        stage,
        known: false,
        connections: 0,
    };
    client.run().await;
}

impl Client {
    async fn run(&mut self) {
        loop {
            let after = match self.connect().await {
                Some(link) => self.stay(link).await,
                None => After::Reconnect,
            };
            self.stage.ledger.borrow_mut().set_idle(self.index, false);
            if self.program.clean {
                self.session.abandon();
                self.stage.ledger.borrow_mut().clean_session_over(self.index);
            }
            let wait_ms = match after {
                After::Reconnect => 1 + self.draws.below(RECONNECT_MS_MAX),
                After::AtOnce => 0,
                After::Later(ms) => ms,
            };
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// A connection that is accepted.
    async fn connect(&mut self) -> Option<Link> {
        let link = open(&self.stage, self.host, Some(self.index), self.connections).await;
        self.connections += 1;
        let mut link = link?;
        if self.program.reads_bytes > 0 {
            self.stage.ledger.borrow_mut().reads_slowly(link.address);
        }
        let mut connect = Connect::new(format!("c{}", self.index));
        connect.keep_alive = self.program.keep_alive_s;
        connect.clean_session = self.program.clean;
        link.send(&Packet::Connect(connect));
        match link.next(ALL, Instant::now() + CONNECT_PATIENCE).await {
            News::Packet(packet) => match *packet {
                Packet::ConnAck(connack) if connack.code == ConnectReturnCode::Success => {
                    self.accepted(&mut link, connack.session_present);
                    return Some(link);
                }
                Packet::ConnAck(connack)
                    if connack.code == ConnectReturnCode::ServiceUnavailable
                        && self.stage.met_full_disk() =>
                {
                    let mut ledger = self.stage.ledger.borrow_mut();
                    ledger.count("refused at a full disk");
                    ledger.line_left(link.address, false);
                }
                other => self.fail(Checker::Protocol, format!("its CONNECT is answered by {other:?}")),
            },
            News::Ended(how, whole) => self.stage.ledger.borrow_mut().line_ended(link.address, how, whole),
            News::Garbage(words) => self.fail(Checker::Codec, format!("what came is not MQTT: {words}")),
            News::Due => self.stage.ledger.borrow_mut().line_left(link.address, true),
        }
        None
    }

    fn accepted(&mut self, link: &mut Link, present: bool) {
        if self.program.clean && present {
            self.fail(Checker::SessionPresent, "it asked for a clean session and there is one".to_owned());
        }
        if !self.program.clean && self.known && !present {
            self.fail(Checker::SessionPresent, "its durable session is gone".to_owned());
        }
        self.known = true;
        self.stage.ledger.borrow_mut().note(&format!("c{}", self.index), &[], || {
            format!("is connected by {}, session present: {present}", link.address)
        });
        self.session.resume(&self.stage, link);
        if !self.stage.ledger.borrow().is_granted(self.index) {
            self.session.subscribe(&self.stage, link, &self.program.subscriptions);
        }
    }

    /// Stays connected as long as it can.
    async fn stay(&mut self, link: Link) -> After {
        let now_ms = self.stage.now_ms();
        let mut course = Course {
            link,
            deaf_until_ms: None,
            silent_until_ms: None,
            heard_ms: now_ms,
            ping_ms: now_ms,
            pings: 0,
            leaving_ms: None,
        };
        loop {
            if let Some(after) = self.go_on(&mut course) {
                let Course { link, leaving_ms: None, .. } = course else { return after };
                if matches!(after, After::AtOnce) {
                    tokio::task::spawn_local(watch::taken_over(Rc::clone(&self.stage), link));
                }
                return after;
            }
            let reads = match course.deaf_until_ms {
                Some(_) => 0,
                None if self.program.reads_bytes > 0 && !self.stage.calm.get() => self.program.reads_bytes,
                None => ALL,
            };
            let until = Instant::now() + Duration::from_millis(self.nap_ms(&course, reads));
            match course.link.next(reads, until).await {
                News::Packet(packet) => self.take(&mut course, *packet),
                News::Ended(how, whole) => {
                    self.stage.ledger.borrow_mut().line_ended(course.link.address, how, whole);
                    return After::Later(course.leaving_ms.unwrap_or(1 + self.draws.below(RECONNECT_MS_MAX)));
                }
                News::Garbage(words) => {
                    self.fail(Checker::Codec, format!("what came is not MQTT: {words}"));
                    return After::Reconnect;
                }
                News::Due => {}
            }
        }
    }

    /// Milliseconds until it has to look at the clock again.
    fn nap_ms(&self, course: &Course, reads: usize) -> u64 {
        let now_ms = self.stage.now_ms();
        if reads > 0 && reads < ALL || course.link.unsent() > 0 {
            return 1;
        }
        let mut next_ms = now_ms + 100;
        next_ms = next_ms.min(self.deeds.front().map_or(next_ms, |(at_ms, _)| *at_ms));
        next_ms = next_ms.min(course.deaf_until_ms.unwrap_or(next_ms));
        next_ms.saturating_sub(now_ms).max(1)
    }

    fn take(&mut self, course: &mut Course, packet: Packet) {
        if packet != Packet::PingResp {
            self.stage.ledger.borrow_mut().something_came();
            if course.silent_until_ms.is_none() && course.leaving_ms.is_none() {
                self.session.take(&self.stage, &mut course.link, packet);
            }
            return;
        }
        if course.pings == 0 {
            self.fail(Checker::Protocol, "PINGRESP without its PINGREQ".to_owned());
        }
        course.pings = course.pings.saturating_sub(1);
    }

    /// Does what is due. Tells how to go on if the connection is over.
    fn go_on(&mut self, course: &mut Course) -> Option<After> {
        let now_ms = self.stage.now_ms();
        if course.deaf_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            course.deaf_until_ms = None;
            self.stage.ledger.borrow_mut().set_reading(course.link.address, true);
            course.heard_ms = now_ms;
        }
        if course.link.heard() {
            course.heard_ms = now_ms;
        }
        if let Some(until_ms) = course.silent_until_ms {
            return (until_ms <= now_ms).then(|| {
                self.stage.ledger.borrow_mut().not_closed(course.link.address, "it sends nothing");
                self.leave(course, false)
            });
        }
        let keep_alive_ms = u64::from(self.program.keep_alive_s) * 1000;
        if course.deaf_until_ms.is_none() && now_ms > course.heard_ms + keep_alive_ms {
            return Some(self.leave(course, course.leaving_ms.is_none()));
        }
        if course.leaving_ms.is_some() {
            return None;
        }
        if now_ms >= course.ping_ms + keep_alive_ms / 2 {
            course.ping_ms = now_ms;
            course.pings += 1;
            course.link.send(&Packet::PingReq);
        }
        while self.next_deed_is_due(course)
            && let Some((_, deed)) = self.deeds.pop_front()
        {
            if let Some(after) = self.act(course, &deed) {
                return Some(after);
            }
        }
        if course.silent_until_ms.is_some() || course.leaving_ms.is_some() {
            return None;
        }
        if course.link.unsent() < OUTBOX_BYTES_MAX && !course.floods() {
            self.session.pump(&self.stage, &mut course.link);
        }
        let idle = self.deeds.is_empty()
            && course.pings == 0
            && course.deaf_until_ms.is_none()
            && self.session.is_quiet()
            && (self.program.subscriptions.is_empty() || self.stage.ledger.borrow().is_granted(self.index));
        self.stage.ledger.borrow_mut().set_idle(self.index, idle);
        None
    }

    fn next_deed_is_due(&self, course: &Course) -> bool {
        let Some((at_ms, deed)) = self.deeds.front() else { return false };
        let busy = course.deaf_until_ms.is_some()
            || course.silent_until_ms.is_some()
            || course.leaving_ms.is_some()
            // What is counted from then on are pings alone.
            || matches!(deed, Deed::Flood { .. }) && course.link.unsent() > 0;
        *at_ms <= self.stage.now_ms() && !busy
    }

    /// It gives the connection up.
    fn leave(&mut self, course: &Course, patience_is_over: bool) -> After {
        self.stage.ledger.borrow_mut().line_left(course.link.address, patience_is_over);
        After::Reconnect
    }

    fn act(&mut self, course: &mut Course, deed: &Deed) -> Option<After> {
        let now_ms = self.stage.now_ms();
        let line = course.link.address;
        let mut ledger = self.stage.ledger.borrow_mut();
        ledger.note(&format!("c{}", self.index), &[], || format!("{deed:?}"));
        match deed {
            Deed::Publish { branch, qos, count, size } => self.session.plan(*branch, *qos, *count, *size),
            Deed::StopReading { for_ms } => {
                ledger.count("stopped reading");
                ledger.set_reading(line, false);
                course.deaf_until_ms = Some(now_ms + for_ms);
            }
            Deed::Flood { for_ms } => {
                ledger.count("flood of pings");
                ledger.set_reading(line, false);
                ledger.floods(line);
                course.deaf_until_ms = Some(now_ms + for_ms);
                course.pings += ledger.flood_bytes() / 2;
                course.link.send_bytes(&[0xc0, 0].repeat((ledger.flood_bytes() / 2) as usize));
            }
            Deed::Break => {
                ledger.count("connection broken off");
                drop(ledger);
                return Some(self.leave(course, false));
            }
            Deed::FallSilent => {
                ledger.count("fell silent");
                ledger.misdeed(line, Misdeed::Silent);
                let longest_ms = u64::from(self.program.keep_alive_s) * 1500 + watch::CLOSE_MS;
                course.silent_until_ms = Some(now_ms + longest_ms);
            }
            Deed::TakeOver => {
                ledger.count("taken over");
                ledger.misdeed(line, Misdeed::TakenOver);
                return Some(After::AtOnce);
            }
            Deed::Leave { for_ms } => {
                ledger.count("goodbye");
                ledger.misdeed(line, Misdeed::Goodbye);
                course.link.send(&Packet::Disconnect);
                course.leaving_ms = Some(*for_ms);
            }
            Deed::Mute { connections } => {
                ledger.count("mute connections");
                for number in 0..*connections {
                    let number = self.connections << 8 | u64::from(number);
                    tokio::task::spawn_local(watch::mute(Rc::clone(&self.stage), self.host, number));
                }
            }
        }
        None
    }

    fn fail(&self, checker: Checker, text: String) {
        self.stage.fail(checker, &format!("c{}", self.index), text);
    }
}

/// Opens a connection to the broker, if it can be had.
async fn open(stage: &Rc<Stage>, host: usize, client: Option<usize>, number: u64) -> Option<Link> {
    let stream = timeout(CONNECT_PATIENCE, TcpStream::connect(("broker", PORT))).await.ok()?.ok()?;
    let entity = number << 8 | client.map_or(255, |client| client as u64);
    let link = Link::new(stream, stage.draws("link", entity), stage.scenario.network.segment_bytes).ok()?;
    stage.ledger.borrow_mut().line_opened(link.address, host, client);
    Some(link)
}

//! An AMQP connection: handshake, frames to their channels, heartbeats, the end.
//!
//! ```text
//! header ─► Start ─ Start-Ok ─► Tune ─ Tune-Ok, Open ─► Open-Ok ─► open ─ Close ─► Close-Ok ─► gone
//! ```
//!
//! Replies take the connection's lane: a confirm waits for the disk, and what comes after it waits behind it. Deliveries
//! and heartbeats pass them.

use super::channel::Channel;
use super::fault::Fault;
use super::wire::method::{MethodId, basic, channel, connection};
use super::wire::protocol_header::PROTOCOL_HEADER;
use super::wire::{
    ChannelNumber, Frame, FrameKind, FrameMax, Framed, Method, ProtocolHeader, PutMethod, ReplyCode,
    ShortStr, Table, Value, frame,
};
use crate::broker::{Broker, Ending};
use crate::connection::Reply;
use crate::ids::{ConnectionId, Lsn, QueueId};
use crate::marks::reached;
use crate::mqtt::connecting::DEFAULT_VHOST;
use crate::output::{CloseKind, CloseReason};
use crate::time::Why;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};

/// What we offer in Tune: frames of 128 KiB, 2047 channels, a heartbeat a minute, as RabbitMQ does.
pub(super) const FRAME_MAX: FrameMax = FrameMax::new(131_072).expect("more than the least");
pub(super) const CHANNEL_MAX: u16 = 2047;
pub(super) const HEARTBEAT_S: u16 = 60;

/// Milliseconds that a client has to answer a Close.
const CLOSE_MS: u64 = 5_000;

/// What is at the other end, as far as AMQP goes.
pub(crate) struct Peer {
    pub(super) stage: Stage,
    pub frame_max: FrameMax,
    channel_max: u16,
    heartbeat_s: u16,
    /// The name that the client gave.
    pub user: Box<str>,
    pub vhost: usize,
    /// It understands Basic.Cancel from us.
    pub takes_cancel: bool,
    /// It understands Connection.Blocked.
    pub takes_blocked: bool,
    pub channels: BTreeMap<u16, Channel>,
    /// The queues that belong to it.
    pub exclusive: BTreeSet<QueueId>,
    /// Something that could not be decoded came: nothing after it can be.
    deaf: bool,
    /// Content of a publish is parked on these channels: what else of it comes is parked too.
    pub parked_channels: BTreeSet<u16>,
    /// What came behind.
    pub parked: VecDeque<Frame>,
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Header,
    Start,
    Tune,
    Open,
    Opened,
    /// We have sent Close.
    Closing,
    /// We have sent, or will send, Close-Ok.
    Closed,
}

impl Peer {
    pub fn new() -> Peer {
        Peer {
            stage: Stage::Header,
            frame_max: FrameMax::MIN,
            channel_max: CHANNEL_MAX,
            heartbeat_s: 0,
            user: Box::default(),
            vhost: 0,
            takes_cancel: false,
            takes_blocked: false,
            channels: BTreeMap::new(),
            exclusive: BTreeSet::new(),
            deaf: false,
            parked_channels: BTreeSet::new(),
            parked: VecDeque::new(),
        }
    }

    pub fn is_open(&self) -> bool {
        self.stage == Stage::Opened
    }
}

impl Broker {
    /// The peer of an AMQP connection that is there.
    pub(super) fn peer(&self, id: ConnectionId) -> &Peer {
        self.find_peer(id).expect("it is an AMQP connection that is open")
    }

    pub(super) fn find_peer(&self, id: ConnectionId) -> Option<&Peer> {
        self.connections.get(&id).and_then(|connection| connection.amqp.as_deref())
    }

    pub(super) fn peer_mut(&mut self, id: ConnectionId) -> Option<&mut Peer> {
        self.connections.get_mut(&id).and_then(|connection| connection.amqp.as_deref_mut())
    }

    pub(super) fn channel(&self, id: ConnectionId, channel: u16) -> Option<&Channel> {
        self.find_peer(id).and_then(|peer| peer.channels.get(&channel))
    }

    pub(super) fn channel_mut(&mut self, id: ConnectionId, channel: u16) -> Option<&mut Channel> {
        self.peer_mut(id).and_then(|peer| peer.channels.get_mut(&channel))
    }

    /// Handles whole frames until there is none, or as many as one turn allows.
    pub(crate) fn parse_amqp(&mut self, id: ConnectionId, mut bytes: Bytes) {
        let mut needs = 0;
        let end = self.pieces + self.settings.limits.turn_work as u64;
        loop {
            let Some(connection) = self.connections.get(&id) else { return };
            if connection.is_blocked(&self.settings.limits) {
                if !bytes.is_empty() || !connection.awaits_verdict() {
                    self.pause(id);
                }
                break;
            }
            if self.pieces >= end && !bytes.is_empty() {
                self.put_off(id);
                break;
            }
            let peer = connection.amqp.as_deref().expect("it is an AMQP connection");
            if peer.deaf {
                return;
            }
            if peer.stage == Stage::Header {
                match ProtocolHeader::check(&bytes) {
                    ProtocolHeader::Partial => {
                        needs = PROTOCOL_HEADER.len();
                        break;
                    }
                    ProtocolHeader::Refused => return self.refuse_protocol(id),
                    ProtocolHeader::Accepted => {
                        drop(bytes.split_to(PROTOCOL_HEADER.len()));
                        self.start_amqp(id);
                        continue;
                    }
                }
            }
            match frame::cut(&mut bytes, peer.frame_max) {
                Err(violation) => {
                    let fault = Fault::from(violation);
                    self.close_connection(id, fault, MethodId::NONE);
                    if let Some(peer) = self.peer_mut(id) {
                        peer.deaf = true;
                    }
                    return;
                }
                Ok(Framed::Partial { needs: total }) => {
                    needs = total;
                    break;
                }
                Ok(Framed::Whole(frame)) => {
                    self.pieces += 1;
                    self.frame(id, frame);
                }
            }
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.needs = needs;
        connection.input.extend_from_slice(&bytes);
    }

    /// Something else than AMQP 0-9-1: the client is told what is spoken here (§4.2.2).
    fn refuse_protocol(&mut self, id: ConnectionId) {
        self.counters.protocol_errors += 1;
        self.send(id, &PROTOCOL_HEADER);
        let text = "the connection does not begin with the header of AMQP 0-9-1";
        let reason = self.reason(id, CloseKind::ProtocolError, "§4.2.2", text.into());
        self.end(id, Ending::Ordered(reason));
    }

    fn start_amqp(&mut self, id: ConnectionId) {
        let server_properties = server_properties();
        let start = connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties,
            mechanisms: b"AMQPLAIN PLAIN",
            locales: b"en_US",
        };
        self.answer(id, 0, Lsn::NONE, &start);
        if let Some(peer) = self.peer_mut(id) {
            peer.stage = Stage::Start;
        }
    }

    /// Sends a method once `wait` is durable and all replies before have left.
    pub(super) fn answer(&mut self, id: ConnectionId, channel: u16, wait: Lsn, method: &impl PutMethod) {
        self.reply(id, wait, Reply::Long(encoded(channel, method)));
    }

    /// Handles a frame, or parks it where it has to wait for what is parked.
    pub(super) fn frame(&mut self, id: ConnectionId, frame: Frame) {
        let number = frame.channel.0;
        let peer = self.peer(id);
        if peer.stage == Stage::Closed {
            return;
        }
        if frame.kind == FrameKind::Heartbeat {
            return;
        }
        if number > 0 && peer.stage == Stage::Closing {
            return;
        }
        if number == 0 && !peer.parked_channels.is_empty() && frame.is_method(connection::Close::ID) {
            // Its answer says that what was published before is done.
            return self.park_frame(id, &frame);
        }
        if number > 0 && peer.is_open() {
            if let Some(channel) = peer.channels.get(&number)
                && channel.closing
            {
                return self.frame_while_closing(id, number, &frame);
            }
            if peer.parked_channels.contains(&number) && !self.passes_parked(&frame) {
                return self.park_frame(id, &frame);
            }
        }
        let outcome = match frame.kind {
            FrameKind::Method => self.method(id, frame),
            FrameKind::Header | FrameKind::Body => self.content(id, frame),
            FrameKind::Heartbeat => Ok(()),
        };
        if let Err((fault, method)) = outcome {
            self.fault(id, number, fault, method);
        }
    }

    /// We have closed the channel: only its end counts.
    fn frame_while_closing(&mut self, id: ConnectionId, number: u16, frame: &Frame) {
        if frame.kind != FrameKind::Method {
            return;
        }
        match Method::decode(frame) {
            Ok(Method::ChannelCloseOk(_)) => {
                self.peer_mut(id).map(|peer| peer.channels.remove(&number));
            }
            Ok(Method::ChannelClose(_)) => {
                self.answer(id, number, Lsn::NONE, &channel::CloseOk {});
            }
            _ => {}
        }
    }

    /// Closes what the fault closes.
    pub(super) fn fault(&mut self, id: ConnectionId, number: u16, fault: Fault, method: MethodId) {
        if fault.hard || number == 0 {
            self.close_connection(id, fault, method);
        } else {
            self.close_channel(id, number, &fault, method);
        }
    }

    fn method(&mut self, id: ConnectionId, frame: Frame) -> Result<(), (Fault, MethodId)> {
        let number = frame.channel.0;
        let method =
            Method::decode(&frame).map_err(|violation| (Fault::from(violation), violation.method))?;
        let which = method.id();
        let outcome = if number == 0 {
            self.connection_method(id, &method)
        } else {
            match self.admits_method(id, number, which) {
                Ok(()) if which == basic::Publish::ID => {
                    drop(method);
                    self.begin_publish(id, number, frame.payload)
                }
                Ok(()) => self.channel_method(id, number, &method),
                Err(fault) => Err(fault),
            }
        };
        outcome.map_err(|fault| (fault, which))
    }

    /// Whether a method of a channel has its place here.
    fn admits_method(&self, id: ConnectionId, number: u16, which: MethodId) -> Result<(), Fault> {
        let peer = self.peer(id);
        if !peer.is_open() {
            let text = "a method of a channel before the connection is open";
            return Err(Fault::new(ReplyCode::CommandInvalid, text));
        }
        match peer.channels.get(&number) {
            None if which != channel::Open::ID => {
                Err(Fault::new(ReplyCode::ChannelError, "expected 'channel.open'"))
            }
            Some(channel) if channel.incoming.is_some() => {
                let text = format!("expected content of basic.publish, got {which}");
                Err(Fault::new(ReplyCode::UnexpectedFrame, text))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn connection_method(&mut self, id: ConnectionId, method: &Method<'_>) -> Result<(), Fault> {
        let stage = self.peer(id).stage;
        match (stage, method) {
            (Stage::Closing, Method::ConnectionCloseOk(_)) => {
                self.end_amqp(id);
                Ok(())
            }
            (_, Method::ConnectionClose(_)) => {
                self.goodbye(id);
                Ok(())
            }
            (Stage::Closing, _) => Ok(()),
            (Stage::Start, Method::ConnectionStartOk(start)) => self.on_start_ok(id, start),
            (Stage::Tune, Method::ConnectionTuneOk(tune)) => self.on_tune_ok(id, tune),
            (Stage::Open, Method::ConnectionOpen(open)) => self.on_open(id, open),
            (Stage::Opened, Method::ConnectionUpdateSecret(_)) => {
                self.answer(id, 0, Lsn::NONE, &connection::UpdateSecretOk {});
                Ok(())
            }
            _ => {
                let text = format!("{} has no place here", method.id());
                Err(Fault::new(ReplyCode::CommandInvalid, text))
            }
        }
    }

    /// What the client agrees to: no more than was offered; 0 means no limit of its own.
    fn on_tune_ok(&mut self, id: ConnectionId, tune: &connection::TuneOk) -> Result<(), Fault> {
        let not_allowed = |name: &str, value: u64, most: u64| {
            let text = format!(
                "negotiated {name} = {value} is higher than the maximum allowed value ({most}) or lower than what \
                 every peer must take"
            );
            Fault::new(ReplyCode::NotAllowed, text)
        };
        let most = FRAME_MAX.get();
        let frame_max = match tune.frame_max {
            0 => Some(FRAME_MAX),
            bytes if bytes <= most => FrameMax::new(bytes),
            _ => None,
        };
        let frame_max =
            frame_max.ok_or_else(|| not_allowed("frame_max", tune.frame_max.into(), most.into()))?;
        if tune.channel_max > CHANNEL_MAX {
            return Err(not_allowed("channel_max", tune.channel_max.into(), CHANNEL_MAX.into()));
        }
        let channel_max = if tune.channel_max == 0 { CHANNEL_MAX } else { tune.channel_max };
        if let Some(peer) = self.peer_mut(id) {
            (peer.frame_max, peer.channel_max, peer.heartbeat_s) = (frame_max, channel_max, tune.heartbeat_s);
            peer.stage = Stage::Open;
        }
        Ok(())
    }

    fn on_open(&mut self, id: ConnectionId, open: &connection::Open<'_>) -> Result<(), Fault> {
        if open.virtual_host.as_bytes() != DEFAULT_VHOST.as_bytes() {
            let text = format!("vhost {} not found", open.virtual_host);
            return Err(Fault::new(ReplyCode::NotAllowed, text));
        }
        let vhost = self.state.vhost(DEFAULT_VHOST);
        let Some(peer) = self.peer_mut(id) else { return Ok(()) };
        peer.vhost = vhost;
        peer.stage = Stage::Opened;
        let heartbeat_s = peer.heartbeat_s;
        self.clear_timer(id);
        self.set_heartbeat_timer(id, heartbeat_s);
        self.answer(id, 0, Lsn::NONE, &connection::OpenOk {});
        if self.are_publishers_held() {
            self.tell_blocked(id);
        }
        Ok(())
    }

    fn set_heartbeat_timer(&mut self, id: ConnectionId, heartbeat_s: u16) {
        if heartbeat_s > 0 {
            let at = self.now.monotonic.plus_ms(u64::from(heartbeat_s) * 500);
            self.set_timer(id, at, Why::KeepAlive);
        }
    }

    /// Half a heartbeat has passed, or the time to answer a Close.
    pub(crate) fn amqp_timer(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let Some(peer) = &connection.amqp else { return };
        if peer.stage != Stage::Opened {
            return self.end_amqp(id);
        }
        let heartbeat_s = peer.heartbeat_s;
        // Whom we do not read cannot be told silent.
        let since = if connection.paused { self.now.monotonic } else { connection.last_received };
        if since.plus_ms(u64::from(heartbeat_s) * 2000) <= self.now.monotonic {
            let text = "silent for twice its heartbeat";
            let reason = self.reason(id, CloseKind::Lost, "§4.2.7", text.into());
            return self.end(id, Ending::Ordered(reason));
        }
        self.send(id, &frame::HEARTBEAT);
        self.set_heartbeat_timer(id, heartbeat_s);
    }

    /// The client says goodbye: what is held is answered first.
    fn goodbye(&mut self, id: ConnectionId) {
        self.drop_channels(id);
        if let Some(peer) = self.peer_mut(id) {
            peer.stage = Stage::Closed;
        }
        self.clear_timer(id);
        self.reply(id, Lsn::NONE, Reply::Goodbye(encoded(0, &connection::CloseOk {})));
        self.finish_goodbye(id);
    }

    /// Close-Ok has left, or waits in the lane.
    pub(crate) fn finish_goodbye(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let over = connection.amqp.as_ref().is_some_and(|peer| peer.stage == Stage::Closed);
        if over && connection.replies.is_empty() {
            self.end_amqp(id);
        }
    }

    /// The broker ends: the client is told, and not waited for.
    pub(crate) fn dismiss_amqp(&mut self, id: ConnectionId, text: &'static str) {
        if self.find_peer(id).is_some_and(Peer::is_open) {
            let code = ReplyCode::ConnectionForced;
            self.send(id, &encoded_close(code, code.text(text).as_short_str(), MethodId::NONE));
        }
        let reason = self.reason(id, CloseKind::Normal, "", text.into());
        self.end(id, Ending::Ordered(reason));
    }

    fn end_amqp(&mut self, id: ConnectionId) {
        let reason = self.reason(id, CloseKind::Normal, "", "closed".into());
        self.end(id, Ending::Ordered(reason));
    }

    /// Closes the connection: the client is told why, and has a while to answer.
    pub(super) fn close_connection(&mut self, id: ConnectionId, fault: Fault, method: MethodId) {
        let Some(peer) = self.find_peer(id) else { return };
        if matches!(peer.stage, Stage::Closing | Stage::Closed) {
            return;
        }
        self.counters.protocol_errors += 1;
        self.drop_channels(id);
        let text = fault.code.text(&fault.text);
        self.reply(id, Lsn::NONE, Reply::Long(encoded_close(fault.code, text.as_short_str(), method)));
        let reason = CloseReason {
            kind: CloseKind::ProtocolError,
            clause: "",
            text: format!("{text}").into(),
            client: None,
        };
        self.event(|| crate::event::Event::AmqpFault { connection: id, channel: 0, reason });
        if let Some(peer) = self.peer_mut(id) {
            peer.stage = Stage::Closing;
        }
        self.clear_timer(id);
        self.set_timer(id, self.now.monotonic.plus_ms(CLOSE_MS), Why::KeepAlive);
    }

    /// What its channels held goes back to its queues; what belongs to the connection goes.
    pub(crate) fn drop_channels(&mut self, id: ConnectionId) {
        let Some(peer) = self.peer_mut(id) else { return };
        let parked = peer.parked.iter().filter(|frame| frame.is_method(basic::Publish::ID)).count();
        let numbers: Vec<u16> = peer.channels.keys().copied().collect();
        self.counters.dropped_held += parked as u64;
        for number in numbers {
            self.end_channel(id, number);
        }
        let Some(peer) = self.peer_mut(id) else { return };
        peer.parked_channels.clear();
        peer.parked.clear();
        for queue in core::mem::take(&mut peer.exclusive) {
            reached!("exclusive queue gone");
            self.delete_declared(queue);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.parked_bytes = 0;
        }
        self.parked.remove(&id);
        self.amqp.blocked.remove(&id);
    }

    /// Whether another channel may be opened.
    pub(super) fn admits_channel(&self, id: ConnectionId, number: u16) -> bool {
        number <= self.peer(id).channel_max
    }

    /// Says that publishers are held, to those who understand.
    pub(crate) fn tell_blocked(&mut self, id: ConnectionId) {
        let takes = self.find_peer(id).is_some_and(|peer| peer.is_open() && peer.takes_blocked);
        if takes && self.amqp.blocked.insert(id) {
            let reason = ShortStr::literal(if self.log.is_full() { "low on disk" } else { "low on memory" });
            self.send(id, &encoded(0, &connection::Blocked { reason }));
        }
    }

    /// Publishers are held, or not any more: every AMQP client is told.
    pub(crate) fn tell_all_blocked(&mut self, held: bool) {
        if held {
            let ids = self.connections.iter().filter(|(_, c)| c.amqp.is_some()).map(|(id, _)| *id);
            let mut ids: Vec<_> = ids.collect();
            ids.sort_unstable();
            ids.into_iter().for_each(|id| self.tell_blocked(id));
            return;
        }
        for id in core::mem::take(&mut self.amqp.blocked) {
            self.send(id, &encoded(0, &connection::Unblocked {}));
        }
    }
}

/// A method as its frame.
pub(super) fn encoded(channel: u16, method: &impl PutMethod) -> Box<[u8]> {
    let mut out = BytesMut::with_capacity(64);
    method.put(&mut out, ChannelNumber(channel));
    out.as_ref().into()
}

/// Connection.Close.
fn encoded_close(code: ReplyCode, reply_text: ShortStr<'_>, method: MethodId) -> Box<[u8]> {
    let reply_code = code.number();
    encoded(
        0,
        &connection::Close { reply_code, reply_text, class_id: method.class, method_id: method.method },
    )
}

fn server_properties() -> Table {
    let name = |text: &'static str| ShortStr::literal(text);
    let mut capabilities = Table::new();
    for capability in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ] {
        capabilities.set(name(capability), Value::Bool(true));
    }
    let mut table = Table::new();
    table.set(name("capabilities"), Value::Table(capabilities));
    table.set(name("product"), Value::text("vowmq"));
    table.set(name("version"), Value::text(env!("CARGO_PKG_VERSION")));
    table.set(name("platform"), Value::text("Rust"));
    table
}

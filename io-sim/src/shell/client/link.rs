//! A client's end of a connection: writes and reads at the same time, as no client may do one and forget the
//! other, and cuts what it sends at seeded places.

use crate::chance::Draws;
use bytes::{Buf, BytesMut};
use mqttbytes::v4::Packet;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use turmoil::net::TcpStream;

/// Larger packets no broker of a simulation has a reason to send.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// A connection.
pub(in crate::shell) struct Link {
    stream: TcpStream,
    pub(in crate::shell) address: SocketAddr,
    outbox: BytesMut,
    inbox: BytesMut,
    draws: Draws,
    segment_bytes: usize,
    timer: Pin<Box<Sleep>>,
    /// Writing has failed; reading will tell.
    unwritable: bool,
    /// Bytes came since this was last asked.
    heard: bool,
}

/// What a connection brings.
pub(in crate::shell) enum News {
    /// A packet.
    Packet(Box<Packet>),
    /// The broker has ended the connection: how, and whether after whole packets.
    Ended(&'static str, bool),
    /// What came is not MQTT.
    Garbage(String),
    /// The time that was named has come.
    Due,
}

impl Link {
    /// # Errors
    /// The connection is gone already.
    pub(in crate::shell) fn new(stream: TcpStream, draws: Draws, segment_bytes: usize) -> io::Result<Link> {
        Ok(Link {
            address: stream.local_addr()?,
            stream,
            outbox: BytesMut::new(),
            inbox: BytesMut::new(),
            draws,
            segment_bytes,
            timer: Box::pin(sleep_until(Instant::now())),
            unwritable: false,
            heard: false,
        })
    }

    /// Sends a packet with what else is to be sent.
    pub(in crate::shell) fn send(&mut self, packet: &Packet) {
        crate::codec::write_plainly(packet, &mut self.outbox);
    }

    /// Sends bytes as they are.
    pub(in crate::shell) fn send_bytes(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
    }

    /// Bytes that wait to be sent.
    pub(in crate::shell) fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// Whether anything came since the last call.
    pub(in crate::shell) fn heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    /// Sends what there is to be sent and reads, up to so many bytes at once, until something comes or it is
    /// time. With 0 bytes nothing is read.
    pub(in crate::shell) async fn next(&mut self, read_bytes: usize, until: Instant) -> News {
        self.timer.as_mut().reset(until);
        poll_fn(|cx| self.poll_next(cx, read_bytes)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, read_bytes: usize) -> Poll<News> {
        self.write(cx);
        if read_bytes > 0 {
            loop {
                match mqttbytes::v4::read(&mut self.inbox, PACKET_BYTES_MAX) {
                    Ok(packet) => return Poll::Ready(News::Packet(Box::new(packet))),
                    Err(mqttbytes::Error::InsufficientBytes(_)) => {}
                    Err(error) => return Poll::Ready(News::Garbage(format!("{error:?}"))),
                }
                match self.read(cx, read_bytes) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(0)) => return Poll::Ready(News::Ended("FIN", self.inbox.is_empty())),
                    Poll::Ready(Ok(_)) if read_bytes < PACKET_BYTES_MAX => break,
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(News::Ended("a reset", self.inbox.is_empty())),
                }
            }
        }
        self.timer.as_mut().poll(cx).map(|()| News::Due)
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        while !self.outbox.is_empty() && !self.unwritable {
            let most = self.outbox.len().min(self.segment_bytes) as u64;
            let cut = if self.draws.percent(50) { most } else { self.draws.between(1, most) } as usize;
            match Pin::new(&mut self.stream).poll_write(cx, &self.outbox[..cut]) {
                Poll::Ready(Ok(count)) => self.outbox.advance(count),
                Poll::Ready(Err(_)) => self.unwritable = true,
                Poll::Pending => return,
            }
        }
        if self.unwritable {
            self.outbox.clear();
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        let mut bytes = [0; 2048];
        let most = most.min(bytes.len());
        let mut buffer = ReadBuf::new(&mut bytes[..most]);
        let result = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
        let read = buffer.filled();
        self.heard |= !read.is_empty();
        self.inbox.extend_from_slice(read);
        let count = read.len();
        result.map_ok(|()| count)
    }
}

/// As many bytes at once as come.
pub(in crate::shell) const ALL: usize = PACKET_BYTES_MAX;

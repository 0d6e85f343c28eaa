//! The shell over streams that are no sockets: what it owes to peers and core whatever the network is.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use vowmq::access::{Logins, Users};
use vowmq::clock::Clock;
use vowmq::disk::directory::{Access, Directory};
use vowmq::disk::threads::DiskThreads;
use vowmq::recovery::{random_seed, recover};
use vowmq::shell::{Command, Listen, Shell};
use vowmq_core::Purpose;
use vowmq_core::input::Protocol;
use vowmq_core::limits::Settings;
use vowmq_core::output::Halt;

/// Connections come out of a channel.
struct Channel(UnboundedReceiver<io::Result<Stream>>);

impl Listen for Channel {
    type Stream = Stream;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, SocketAddr)>> {
        match ready!(self.0.poll_recv(cx)) {
            Some(accepted) => {
                Poll::Ready(accepted.map(|stream| (stream, SocketAddr::from(([127, 0, 0, 1], 1)))))
            }
            None => Poll::Pending,
        }
    }
}

/// A pipe whose writing side can break, as a socket's does when the peer is gone.
#[derive(Debug)]
struct Stream {
    pipe: DuplexStream,
    unwritable: Rc<Cell<bool>>,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.unwritable.get() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.pipe).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}

/// A running shell.
struct Running {
    _place: tempfile::TempDir,
    accept: UnboundedSender<io::Result<Stream>>,
    commands: UnboundedSender<Command>,
    halt: JoinHandle<Halt>,
}

impl Running {
    async fn start() -> Running {
        Running::start_with(usize::MAX).await
    }

    /// With so many sockets of connections at the most.
    async fn start_with(sockets_max: usize) -> Running {
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let mut settings = Settings { segment_bytes: 1024 * 1024, ..Settings::default() };
        settings.limits.packet_bytes = 256 * 1024;
        settings.limits.connect_bytes = 64 * 1024;
        settings.check().expect("in range");
        let clock = Clock::start();
        let mut disk =
            DiskThreads::start(Directory::new(place.path(), Access::ReadWrite)).expect("threads start");
        let recovered = recover(&mut disk, &clock, settings, random_seed(), Purpose::Serve).await;
        let recovered =
            recovered.map_err(|refusal| refusal.to_string()).expect("an empty directory is sound");
        let mut shell = Shell::new(recovered.broker, clock);
        shell.set_sockets_max(sockets_max);
        let (accept, accepted) = unbounded_channel();
        shell.listen(Channel(accepted), Protocol::Mqtt);
        let (commands, incoming) = unbounded_channel();
        let halt = spawn_local(shell.run(disk, Logins::of(Users::default()), incoming));
        Running { _place: place, accept, commands, halt }
    }

    /// A new connection whose pipe holds so many bytes, and the switch that breaks its writing side.
    fn connect(&self, pipe_bytes: usize) -> (DuplexStream, Rc<Cell<bool>>) {
        let (near, far) = duplex(pipe_bytes);
        let unwritable = Rc::new(Cell::new(false));
        let stream = Stream { pipe: far, unwritable: Rc::clone(&unwritable) };
        self.accept.send(Ok(stream)).expect("the listener runs");
        (near, unwritable)
    }

    async fn shut_down(self) -> Halt {
        self.commands.send(Command::ShutDown).expect("the turn task runs");
        self.halt.await.expect("no panic")
    }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("builds");
    LocalSet::new().block_on(&runtime, test)
}

fn connect_packet(client: &str, level: u8) -> Vec<u8> {
    let mut packet = vec![0x10, 12 + client.len() as u8, 0, 4, b'M', b'Q', b'T', b'T', level, 2, 0, 60, 0];
    packet.push(client.len() as u8);
    packet.extend_from_slice(client.as_bytes());
    packet
}

/// SUBSCRIBE to `t` with QoS 0, packet id 1.
const SUBSCRIBE: [u8; 8] = [0x82, 6, 0, 1, 0, 1, b't', 0];

fn publish_packet(payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x30];
    let mut length = payload.len() + 3;
    while length >= 128 {
        packet.push((length % 128) as u8 | 0x80);
        length /= 128;
    }
    packet.push(length as u8);
    packet.extend_from_slice(&[0, 1, b't']);
    packet.extend_from_slice(payload);
    packet
}

async fn expect(stream: &mut DuplexStream, expected: &[u8]) {
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).await.expect("comes");
    assert!(received == expected, "{:?} is not {:?}", received.escape_ascii(), expected.escape_ascii());
}

async fn subscriber(running: &Running, pipe_bytes: usize) -> DuplexStream {
    let (mut stream, _) = running.connect(pipe_bytes);
    stream.write_all(&connect_packet("subscriber", 4)).await.expect("sends");
    expect(&mut stream, &[0x20, 2, 0, 0]).await;
    stream.write_all(&SUBSCRIBE).await.expect("sends");
    expect(&mut stream, &[0x90, 3, 0, 1, 0]).await;
    stream
}

#[test]
fn messages_pass_through_a_pipe_of_any_width() {
    // If it failed, bytes would be lost or mixed up where a socket takes and gives them in pieces.
    run(async {
        for pipe_bytes in [1, 7, 100_000] {
            let running = Running::start().await;
            let mut subscriber = subscriber(&running, pipe_bytes).await;
            let (mut publisher, _) = running.connect(pipe_bytes);
            publisher.write_all(&connect_packet("publisher", 4)).await.expect("sends");
            expect(&mut publisher, &[0x20, 2, 0, 0]).await;
            for length in [0, 1, 5000, 100_000] {
                let packet = publish_packet(&(0..length).map(|at| at as u8).collect::<Vec<u8>>());
                publisher.write_all(&packet).await.expect("sends");
                expect(&mut subscriber, &packet).await;
            }
            drop(publisher);
            let halt = spawn_local(running.shut_down());
            assert_eq!(subscriber.read(&mut [0]).await.expect("ends in order"), 0);
            drop(subscriber);
            assert_eq!(halt.await.expect("no panic"), Halt::ShutDown);
        }
    });
}

#[test]
fn sockets_beyond_the_most_wait_to_be_accepted() {
    // If it failed, whoever opens connections would take the store's descriptors, and with them the broker.
    run(async {
        let running = Running::start_with(2).await;
        let mut streams = Vec::new();
        for client in ["first", "second", "third"] {
            let (mut stream, _) = running.connect(4096);
            stream.write_all(&connect_packet(client, 4)).await.expect("sends");
            streams.push(stream);
        }
        for stream in &mut streams[..2] {
            expect(stream, &[0x20, 2, 0, 0]).await;
        }
        let early = tokio::time::timeout(Duration::from_millis(300), streams[2].read_u8()).await;
        assert!(early.is_err(), "{early:?}");
        streams.remove(0);
        expect(&mut streams[1], &[0x20, 2, 0, 0]).await;
        drop(streams);
        assert_eq!(running.shut_down().await, Halt::ShutDown);
    });
}

#[test]
fn a_refused_client_learns_why_before_the_end() {
    // If it failed, the answer that says why would be cut off by the close.
    run(async {
        let running = Running::start().await;
        let (mut stream, _) = running.connect(1);
        stream.write_all(&connect_packet("client", 9)).await.expect("sends");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.expect("ends in order");
        assert_eq!(received, [0x20, 2, 0, 1], "CONNACK: unacceptable protocol version");
        drop(stream);
        assert_eq!(running.shut_down().await, Halt::ShutDown);
    });
}

#[test]
fn what_a_peer_sent_before_it_went_is_processed() {
    // If it failed, messages of a client that does not wait for its answers would be lost although they arrived.
    run(async {
        let running = Running::start().await;
        let mut subscriber = subscriber(&running, 4096).await;
        let (mut publisher, unwritable) = running.connect(1_000_000);
        unwritable.set(true);
        let packet = publish_packet(&[7; 100_000]);
        publisher.write_all(&connect_packet("publisher", 4)).await.expect("sends");
        for _ in 0..5 {
            publisher.write_all(&packet).await.expect("sends");
        }
        drop(publisher);
        for _ in 0..5 {
            expect(&mut subscriber, &packet).await;
        }
        drop(subscriber);
        assert_eq!(running.shut_down().await, Halt::ShutDown);
    });
}

#[test]
fn a_peer_that_ends_its_direction_at_once_is_still_answered() {
    // If it failed, the answer and the log line that says why would be lost where FIN comes with the last bytes.
    run(async {
        let running = Running::start().await;
        let (mut stream, _) = running.connect(4096);
        stream.write_all(&connect_packet("client", 4)).await.expect("sends");
        stream.write_all(&[0xc0, 0]).await.expect("sends");
        stream.shutdown().await.expect("ends its direction");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.expect("ends in order");
        assert_eq!(received, [0x20, 2, 0, 0, 0xd0, 0], "CONNACK, PINGRESP");
        assert_eq!(running.shut_down().await, Halt::ShutDown);
    });
}

#[test]
fn a_refused_client_that_still_sends_learns_why_and_is_not_listened_to_for_ever() {
    // If it failed, a client would meet a reset before it has read why it is dismissed, or hold a socket as long as it likes.
    run(async {
        let running = Running::start().await;
        for (sends_for_ms, is_over) in [(20_000, false), (40_000, true)] {
            let (mut stream, _) = running.connect(4096);
            stream.write_all(&connect_packet("client", 9)).await.expect("sends");
            tokio::time::pause();
            let mut sent = Ok(());
            for _ in 0..sends_for_ms / 500 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                sent = stream.write_all(&[0xc0, 0]).await;
            }
            tokio::time::resume();
            assert_eq!(sent.is_err(), is_over, "after {sends_for_ms} ms");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).await.expect("ends in order");
            assert_eq!(received, [0x20, 2, 0, 1], "CONNACK: unacceptable protocol version");
        }
        assert_eq!(running.shut_down().await, Halt::ShutDown);
    });
}

#[test]
fn a_listener_outlives_a_lack_of_descriptors() {
    // If it failed, one moment without file descriptors would close the broker to everybody.
    run(async {
        let running = Running::start().await;
        for _ in 0..2 {
            running.accept.send(Err(io::Error::from_raw_os_error(24))).expect("the listener runs");
        }
        let subscriber = subscriber(&running, 4096).await;
        drop(subscriber);
        assert_eq!(running.shut_down().await, Halt::ShutDown);
    });
}

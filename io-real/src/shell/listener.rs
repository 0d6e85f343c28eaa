//! Accepting connections.

use super::Shared;
use super::connection;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task;
use tokio::time::sleep;
use vowmq_core::ids::ListenerId;
use vowmq_core::input::{Input, Peer, Protocol};

/// How long nothing is accepted after the system had no descriptor or memory for a connection.
const OUT_OF_RESOURCES_PAUSE: Duration = Duration::from_millis(100);

/// Whatever connections come from.
pub trait Listen: 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    /// The next connection and its peer's address.
    ///
    /// # Errors
    /// What the system says; the listener goes on.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>>;
}

/// A TCP listener whose connections send without delay: the core gathers, so Nagle's algorithm would only wait.
#[derive(Debug)]
pub struct TcpAcceptor(pub TcpListener);

impl Listen for TcpAcceptor {
    type Stream = TcpStream;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let (stream, peer) = ready!(self.0.poll_accept(cx))?;
        // It can fail only where the peer has gone already, which the first read tells.
        let _ = stream.set_nodelay(true);
        Poll::Ready(Ok((stream, peer)))
    }
}

/// Accepts until the task is aborted.
pub(super) async fn accept<L: Listen>(
    shared: Rc<Shared>,
    mut listener: L,
    id: ListenerId,
    protocol: Protocol,
) {
    let mut out_of_resources = false;
    loop {
        if shared.open.get() >= shared.sockets_max.get() {
            if !out_of_resources {
                tracing::error!(
                    "no connection can be accepted for now: {} are open, and the system allows too few files for more \
                     (ulimit -n)",
                    shared.open.get()
                );
                out_of_resources = true;
            }
            sleep(OUT_OF_RESOURCES_PAUSE).await;
            continue;
        }
        match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok((stream, peer)) => {
                out_of_resources = false;
                opened(&shared, stream, peer, id, protocol);
            }
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                if !out_of_resources {
                    tracing::error!("no connection can be accepted for now: {error}");
                    out_of_resources = true;
                }
                sleep(OUT_OF_RESOURCES_PAUSE).await;
            }
        }
    }
}

fn opened<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    shared: &Rc<Shared>,
    stream: S,
    peer: SocketAddr,
    listener: ListenerId,
    protocol: Protocol,
) {
    let connection = shared.next_connection();
    tracing::debug!("connection {connection} from {peer}");
    let task = connection::Connection::new(Rc::clone(shared), connection, stream, peer);
    shared.tell(Input::Opened { connection, listener, protocol, peer: Peer { address: peer } });
    task::spawn_local(task);
}

/// The peer went away while it waited to be accepted.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

//! The thread that checks logins: hashing a password takes milliseconds, and nobody else is to wait for it.

use super::Users;
use super::users::Remembered;
use super::verifier::Key;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use vowmq_core::access::{Credentials, Verdict};
use vowmq_core::ids::ConnectionId;

/// A login that has waited for so long is turned away unseen: its client has given up, and others wait behind it.
const PATIENCE: Duration = Duration::from_secs(10);

struct Login {
    connection: ConnectionId,
    credentials: Credentials,
    users: Users,
    begun: Instant,
}

/// The logins under way. The thread starts with the first.
pub struct Logins {
    users: Users,
    /// The same for all users that there are while the process runs.
    secret: Key,
    orders: Option<mpsc::Sender<Login>>,
    tell: UnboundedSender<(ConnectionId, Verdict)>,
    done: UnboundedReceiver<(ConnectionId, Verdict)>,
}

impl Logins {
    /// Of these users.
    pub fn of(users: Users) -> Logins {
        let (tell, done) = unbounded_channel();
        let mut secret = Key::default();
        getrandom::fill(&mut secret).expect("the system has random numbers");
        Logins { users: users.with_secret(secret), secret, orders: None, tell, done }
    }

    /// Other users from the next login on.
    pub fn set_users(&mut self, users: Users) {
        self.users = users.with_secret(self.secret);
    }

    /// Begins to find out who this is.
    pub fn begin(&mut self, connection: ConnectionId, credentials: Credentials) {
        let orders = self.orders.get_or_insert_with(|| start(self.tell.clone()));
        let login = Login { connection, credentials, users: self.users.clone(), begun: Instant::now() };
        if orders.send(login).is_err() {
            // There is no thread; the next login tries to start one again.
            self.orders = None;
            let why = "this machine has no thread to check who it is";
            let _ = self.tell.send((connection, Verdict::Unavailable { why }));
        }
    }

    /// The next answer.
    pub fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<(ConnectionId, Verdict)> {
        self.done.poll_recv(cx).map(|done| done.expect("a sender is kept beside it"))
    }
}

fn start(tell: UnboundedSender<(ConnectionId, Verdict)>) -> mpsc::Sender<Login> {
    let (orders, incoming) = mpsc::channel::<Login>();
    let check = move || {
        let mut remembered = Remembered::new();
        for Login { connection, credentials, users, begun } in incoming {
            let verdict = match begun.elapsed() > PATIENCE {
                true => Verdict::Unavailable { why: "too many logins at once" },
                false => users.verify(&credentials, &mut remembered),
            };
            if tell.send((connection, verdict)).is_err() {
                return;
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("logins".to_owned()).spawn(check) {
        tracing::error!("no thread for logins: {error}");
    }
    orders
}

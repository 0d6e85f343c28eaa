//! Who waits to be let in: hashing a password takes milliseconds, and nobody is to wait for those of others.
//!
//! | login | checked |
//! |---|---|
//! | a step of SCRAM, a password that was right before | at once: it takes microseconds |
//! | another password | by a thread, the users in turn; those whom nobody knows have one turn together |
//!
//! So whoever tries passwords keeps nobody waiting but who gives another one for the same user. The check of a connection
//! that has ended is left out.

use super::Users;
use super::users::{canonical, refused};
use super::verifier::Key;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use subtle::ConstantTimeEq;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use vowmq_core::access::{Credentials, Verdict};
use vowmq_core::ids::ConnectionId;

/// A password that is to be hashed.
struct Login {
    connection: ConnectionId,
    user: String,
    password: Vec<u8>,
    users: Users,
    /// Nobody waits for it any more.
    forgotten: Arc<AtomicBool>,
}

/// The logins of each user that wait, by the user's name; by none those of all whom nobody knows.
#[derive(Default)]
struct Waiting {
    by_user: BTreeMap<String, VecDeque<Login>>,
    /// Whose turn was the last.
    last: String,
    over: bool,
}

impl Waiting {
    fn add(&mut self, login: Login) {
        let name = if login.users.knows(&login.user) { login.user.clone() } else { String::new() };
        self.by_user.entry(name).or_default().push_back(login);
    }

    fn next(&mut self) -> Option<Login> {
        let behind = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let next = self.by_user.range(behind).next().or_else(|| self.by_user.first_key_value());
        self.last = next?.0.clone();
        let of_user = self.by_user.get_mut(&self.last)?;
        let login = of_user.pop_front();
        if of_user.is_empty() {
            self.by_user.remove(&self.last);
        }
        login
    }
}

/// What the thread shares with who asks.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that is begun under the lock can fail half-way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next login that somebody waits for; none when there will be none any more.
    fn wait_for_next(&self) -> Option<Login> {
        let mut waiting = self.waiting();
        loop {
            if waiting.over {
                return None;
            }
            match waiting.next() {
                Some(login) if login.forgotten.load(Ordering::Relaxed) => {}
                Some(login) => return Some(login),
                None => waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// What was found of a connection, and the hash to remember of a user's password that was right.
type Found = (ConnectionId, Verdict, Option<(String, Key)>);

/// The logins under way. The thread starts with the first password that has to be hashed.
pub struct Logins {
    users: Users,
    /// Of the hashes that are remembered.
    secret: Key,
    /// The password that was right last, of each user, as a keyed hash.
    remembered: HashMap<String, Key>,
    queue: Option<Arc<Queue>>,
    /// Passwords that wait or are being hashed.
    waiting: HashMap<ConnectionId, Arc<AtomicBool>>,
    tell: UnboundedSender<Found>,
    done: UnboundedReceiver<Found>,
}

impl Logins {
    /// Of these users.
    pub fn of(users: Users) -> Logins {
        let (tell, done) = unbounded_channel();
        let mut secret = Key::default();
        getrandom::fill(&mut secret).expect("the system has random numbers");
        let (remembered, waiting) = (HashMap::new(), HashMap::new());
        Logins { users, secret, remembered, queue: None, waiting, tell, done }
    }

    /// Other users from the next login on.
    pub fn set_users(&mut self, users: Users) {
        self.users = users;
    }

    /// Begins to find out who this is.
    pub fn begin(&mut self, connection: ConnectionId, credentials: Credentials) {
        let verdict = match credentials {
            Credentials::Step { method, state, data } => self.users.step(&method, state.as_deref(), &data),
            Credentials::Password { user, password } => {
                let user = canonical(&user);
                let hash = self.users.quick_hash(&self.secret, &user, &password);
                let known = self.remembered.get(&*user).is_some_and(|known| known.ct_eq(&hash).into());
                match known {
                    true => Verdict::Proven { user: user.into_owned(), data: Vec::new() },
                    false => return self.wait(connection, user.into_owned(), password),
                }
            }
        };
        self.answer(connection, verdict);
    }

    fn answer(&self, connection: ConnectionId, verdict: Verdict) {
        // The receiver is kept beside it.
        let _ = self.tell.send((connection, verdict, None));
    }

    /// The connection has ended: nobody waits for its login any more.
    pub fn forget(&mut self, connection: ConnectionId) {
        if let Some(forgotten) = self.waiting.remove(&connection) {
            forgotten.store(true, Ordering::Relaxed);
        }
    }

    fn wait(&mut self, connection: ConnectionId, user: String, password: Vec<u8>) {
        let queue = match &self.queue {
            Some(queue) => Arc::clone(queue),
            None => match start(self.secret, self.tell.clone()) {
                Ok(queue) => Arc::clone(self.queue.insert(queue)),
                Err(error) => {
                    tracing::error!(
                        "no password can be checked, since the system has no thread for it: {error}"
                    );
                    let why = "no password can be checked now";
                    return self.answer(connection, Verdict::Unavailable { why });
                }
            },
        };
        let forgotten = Arc::new(AtomicBool::new(false));
        self.waiting.insert(connection, Arc::clone(&forgotten));
        queue.waiting().add(Login { connection, user, password, users: self.users.clone(), forgotten });
        queue.filled.notify_one();
    }

    /// The next answer.
    pub fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<(ConnectionId, Verdict)> {
        self.done.poll_recv(cx).map(|done| {
            let (connection, verdict, proven) = done.expect("a sender is kept beside it");
            self.waiting.remove(&connection);
            self.remembered.extend(proven);
            (connection, verdict)
        })
    }
}

impl Drop for Logins {
    /// The thread ends after the password that it is at.
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.waiting().over = true;
            queue.filled.notify_one();
        }
    }
}

fn start(secret: Key, tell: UnboundedSender<Found>) -> io::Result<Arc<Queue>> {
    let queue = Arc::new(Queue::default());
    let of_thread = Arc::clone(&queue);
    let check = move || {
        while let Some(Login { connection, user, password, users, .. }) = of_thread.wait_for_next() {
            let right = users.has_password(&user, &password);
            let hash = users.quick_hash(&secret, &user, &password);
            let found = match right {
                true => {
                    let verdict = Verdict::Proven { user: user.clone(), data: Vec::new() };
                    (connection, verdict, Some((user, hash)))
                }
                false => (connection, refused(&user), None),
            };
            if tell.send(found).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("logins".to_owned()).spawn(check)?;
    Ok(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{ITERATIONS, Verifier};
    use std::future::poll_fn;

    fn users() -> Users {
        let mut users = Users::default();
        for (name, password) in [("alice", "one"), ("bob", "two")] {
            users.add(name, Verifier::new(password.as_bytes(), b"salt", ITERATIONS)).expect("a name");
        }
        users
    }

    fn login(name: &str, number: u64) -> Login {
        let (connection, user, password) = (ConnectionId(number), name.to_owned(), Vec::new());
        Login { connection, user, password, users: users(), forgotten: Arc::default() }
    }

    fn begin(logins: &mut Logins, number: u64, user: &str, password: &str) {
        let credentials = Credentials::Password { user: user.to_owned(), password: password.into() };
        logins.begin(ConnectionId(number), credentials);
    }

    async fn proven(logins: &mut Logins, number: u64) -> bool {
        let (connection, verdict) = poll_fn(|cx| logins.poll_done(cx)).await;
        assert_eq!(connection, ConnectionId(number));
        matches!(verdict, Verdict::Proven { .. })
    }

    #[test]
    fn users_take_turns_and_strangers_have_one_together() {
        // Broken: whoever tries many names or passwords keeps everybody else out.
        let mut waiting = Waiting::default();
        let names = ["mallory", "eve", "alice", "trudy", "alice", "bob", "oscar"];
        (1..).zip(names).for_each(|(number, name)| waiting.add(login(name, number)));
        let order: Vec<String> = std::iter::from_fn(|| waiting.next()).map(|login| login.user).collect();
        assert_eq!(order, ["alice", "bob", "mallory", "alice", "eve", "trudy", "oscar"]);
    }

    #[test]
    fn whom_nobody_waits_for_is_passed_by() {
        let queue = Queue::default();
        queue.waiting().add(login("alice", 1));
        queue.waiting().add(login("alice", 2));
        queue.waiting().by_user["alice"][0].forgotten.store(true, Ordering::Relaxed);
        assert_eq!(queue.wait_for_next().map(|login| login.connection), Some(ConnectionId(2)));
        queue.waiting().over = true;
        assert!(queue.wait_for_next().is_none());
    }

    #[tokio::test]
    async fn a_password_is_right_or_wrong_remembered_or_not() {
        let mut logins = Logins::of(users());
        for first in [1, 10] {
            begin(&mut logins, first, "alice", "one");
            assert!(proven(&mut logins, first).await);
            for (number, user, password) in
                [(2, "alice", "two"), (3, "alice", ""), (4, "carol", "one"), (5, "", "")]
            {
                begin(&mut logins, number, user, password);
                assert!(!proven(&mut logins, number).await, "{user} {password}");
            }
            assert_eq!((logins.remembered.len(), logins.waiting.len()), (1, 0));
        }
        // A new password: what is remembered of the old one is worth nothing.
        let mut changed = users();
        changed.replace("alice", Verifier::new(b"three", b"salt", ITERATIONS));
        logins.set_users(changed);
        begin(&mut logins, 20, "alice", "one");
        assert!(!proven(&mut logins, 20).await);
        begin(&mut logins, 21, "alice", "three");
        assert!(proven(&mut logins, 21).await);
    }

    #[tokio::test]
    async fn what_is_quick_waits_for_nobody() {
        // Broken: wrong passwords of strangers hold up whoever was let in before, and SCRAM.
        let mut logins = Logins::of(users());
        begin(&mut logins, 1, "alice", "one");
        assert!(proven(&mut logins, 1).await);
        (100..1100).for_each(|number| begin(&mut logins, number, "nobody", "guess"));
        begin(&mut logins, 2, "alice", "one");
        let data = b"n,,n=bob,r=abc".to_vec();
        logins.begin(
            ConnectionId(3),
            Credentials::Step { method: "SCRAM-SHA-256".to_owned(), state: None, data },
        );
        (100..1100).for_each(|number| logins.forget(ConnectionId(number)));
        let mut before = 0;
        while poll_fn(|cx| logins.poll_done(cx)).await.0 != ConnectionId(3) {
            before += 1;
        }
        assert!(before < 100, "{before} others came first");
    }
}

//! `vowmq serve`: recover, listen, serve until told to stop.

use super::Failure;
use super::log::{self, LogFilter};
use crate::access::Logins;
use crate::clock::Clock;
use crate::configuration::{Configuration, Sources};
use crate::disk::directory::{Access, Directory, OPEN_FILES_MAX};
use crate::disk::lock::DirectoryLock;
use crate::disk::threads::DiskThreads;
use crate::disk::unfinished;
use crate::recovery::{random_seed, recover};
use crate::shell::{Command, Shell, TcpAcceptor};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, ErrorKind, Write, stdout};
use std::net::SocketAddr;
use std::panic;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use vowmq_core::access::Access as WhoMayConnect;
use vowmq_core::input::Protocol;
use vowmq_core::limits::SyncPolicy;
use vowmq_core::output::Halt;
use vowmq_core::{Purpose, RecoveryReport};

/// Descriptors that are not for connections: two for each segment that is held open, and those of the runtime, the
/// listeners, the log, the lock and whatever is open for a moment.
const DESCRIPTORS_RESERVED: usize = 2 * OPEN_FILES_MAX + 64;

/// Connections that the system completes ahead of their being accepted.
const BACKLOG: u32 = 4096;

pub(super) fn serve(sources: Sources) -> Result<(), Failure> {
    let configuration = sources.load().map_err(|error| Failure::of_configuration(&error))?;
    let log = log::start(&configuration.log)?;
    stop_on_panic();
    let sockets_max = raise_descriptor_limit(configuration.settings.limits.connections);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    runtime.block_on(local.run_until(serve_until_stopped(sources, configuration, log, sockets_max)))
}

async fn serve_until_stopped(
    sources: Sources,
    configuration: Configuration,
    log: LogFilter,
    sockets_max: usize,
) -> Result<(), Failure> {
    let signals = Signals::register()?;
    Directory::make(&configuration.data_dir)
        .map_err(|error| no_directory(&configuration.data_dir, &error))?;
    unfinished::refuse(&configuration.data_dir)?;
    let _lock = DirectoryLock::take(&configuration.data_dir)?;
    let addresses = configuration.listeners();
    let sockets: Vec<TcpSocket> =
        addresses.iter().map(|(_, address)| bind(*address)).collect::<Result<_, _>>()?;

    let begun = Instant::now();
    let clock = Clock::start();
    let mut disk = DiskThreads::start(Directory::new(&configuration.data_dir, Access::ReadWrite))?;
    let recovered = recover(&mut disk, &clock, configuration.settings, random_seed(), Purpose::Serve).await?;
    let took = begun.elapsed();

    let mut shell = Shell::new(recovered.broker, clock);
    shell.set_sockets_max(sockets_max);
    let mut lines = String::new();
    for (socket, (protocol, address)) in sockets.into_iter().zip(addresses) {
        let listener = socket.listen(BACKLOG).map_err(|error| Failure::new(format!("{address}: {error}")))?;
        let name = match protocol {
            Protocol::Mqtt => "mqtt",
            Protocol::Amqp => "amqp",
        };
        lines.push_str(&format!("listening {name} {}\n", listener.local_addr()?));
        shell.listen(TcpAcceptor(listener), protocol);
    }
    lines.push_str(&recovery_line(&recovered.report, took));
    lines.push_str(&sync_line(configuration.settings.sync));
    lines.push_str("ready\n");
    tell(&lines);

    let (commands, incoming) = unbounded_channel();
    let logins = Logins::of(configuration.users.clone());
    tokio::task::spawn_local(obey_signals(signals, sources, configuration, log, commands));
    match shell.run(disk, logins, incoming).await {
        Halt::ShutDown => Ok(()),
        fault @ Halt::Storage { .. } => Err(Failure::new(fault.to_string())),
    }
}

/// The system calls a file in the way "File exists", which tells nobody what to do.
fn no_directory(data_dir: &Path, error: &io::Error) -> Failure {
    let place = data_dir.display();
    Failure::new(match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            format!("{place}: something that is no directory stands in its way; choose another --data-dir")
        }
        _ => format!("{place}: the directory cannot be made: {error}"),
    })
}

/// Takes the address before recovery, so that a port in use is told at once; nobody can connect yet.
fn bind(address: SocketAddr) -> Result<TcpSocket, Failure> {
    let failed = |error| Failure::new(format!("{address}: {error}"));
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(failed)?;
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(address).map_err(failed)?;
    Ok(socket)
}

fn recovery_line(report: &RecoveryReport, took: Duration) -> String {
    if let Some((segment, offset)) = report.torn_tail {
        tracing::info!("an unfinished write in segment {segment} at offset {offset} was cut off");
    }
    format!(
        "recovered {} sessions, {} queues, {} messages in {:.2} s\n",
        report.sessions,
        report.queues,
        report.messages,
        took.as_secs_f64()
    )
}

/// What an acknowledgement promises, where it is less than "on disk".
fn sync_line(sync: SyncPolicy) -> String {
    match sync {
        SyncPolicy::Always => String::new(),
        SyncPolicy::EveryMs(millis) => format!(
            "sync every {millis} ms: a power cut or system crash may lose what was acknowledged in the last {millis} \
             ms; a crash of the broker alone loses nothing\n"
        ),
        SyncPolicy::Never => {
            "sync never: a power cut or system crash may lose anything that was acknowledged; a crash \
                              of the broker alone loses nothing\n"
                .to_owned()
        }
    }
}

/// A promise that changes while the broker runs is told where its operator looks.
fn tell_of_sync(sync: SyncPolicy) {
    match sync {
        SyncPolicy::Always => tracing::info!("sync always: an acknowledgement means \"on disk\" from now on"),
        SyncPolicy::EveryMs(_) | SyncPolicy::Never => tracing::warn!("{}", sync_line(sync).trim_end()),
    }
}

/// Who may connect is told where the operator looks, when it changes.
fn tell_of_access(access: WhoMayConnect) {
    match access {
        WhoMayConnect::Everybody => {
            tracing::warn!(
                "there are no [users] any more: everybody may connect, under any name and with any password"
            );
        }
        WhoMayConnect::Users { or_anonymous: true } => tracing::warn!(
            "from now on users have to prove who they are; MQTT clients without a name and a password may connect as well \
             (allow_anonymous)"
        ),
        WhoMayConnect::Users { or_anonymous: false } => {
            tracing::info!("from now on every client has to prove to be one of the [users]");
        }
    }
}

/// Prints what scripts wait for. Nobody reading is no reason to stop.
fn tell(lines: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

enum Wish {
    Stop,
    Reload,
}

impl Signals {
    fn register() -> Result<Signals, Failure> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wish {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.hangup.recv() => Wish::Reload,
        }
    }
}

async fn obey_signals(
    mut signals: Signals,
    sources: Sources,
    mut configuration: Configuration,
    log: LogFilter,
    commands: UnboundedSender<Command>,
) {
    let mut stopping = false;
    loop {
        match signals.next().await {
            Wish::Stop if stopping => {
                eprintln!("vowmq: stopped at once by a second signal");
                process::exit(1);
            }
            Wish::Stop => {
                stopping = true;
                tracing::info!("stopping; a second signal stops at once");
                let _ = commands.send(Command::ShutDown);
            }
            Wish::Reload => reload(&sources, &mut configuration, &log, &commands),
        }
    }
}

fn reload(
    sources: &Sources,
    configuration: &mut Configuration,
    log: &LogFilter,
    commands: &UnboundedSender<Command>,
) {
    let new = match sources.load() {
        Ok(new) => new,
        Err(error) => {
            tracing::error!("the configuration was not reloaded, the old one stays in force: {error}");
            return;
        }
    };
    // The segments are as they were at start, so the other settings have to fit to those.
    let mut settings = new.settings;
    settings.segment_bytes = configuration.settings.segment_bytes;
    if let Err(error) = settings.check() {
        tracing::error!(
            "the configuration was not reloaded: {error}, with the segment_bytes of the last start"
        );
        return;
    }
    // The addresses are those of the start, whatever the file says now.
    if let Some((_, address)) = new.open_to_strangers(&configuration.listeners()) {
        tracing::error!(
            "the configuration was not reloaded, the old one stays in force: vowmq listens on {address} since its start, \
             which can be reached from other machines, and there would be no [users] any more; add some, or write \
             `allow_anonymous = true` if everybody who reaches it may publish and subscribe"
        );
        return;
    }
    let waiting = configuration.needing_restart(&new);
    if !waiting.is_empty() {
        tracing::warn!("changed, but in force only after a restart: {}", waiting.join(", "));
    }
    if let Err(Failure { text: error, .. }) = log.set(&new.log) {
        tracing::error!("the filter of the log was not changed: {error}");
    }
    let _ = commands.send(Command::Reload(Box::new(settings), new.users.clone()));
    if settings.sync != configuration.settings.sync {
        tell_of_sync(settings.sync);
    }
    if settings.access != configuration.settings.access {
        tell_of_access(settings.access);
    }
    // What needs a restart stays as it was, so that the next reload tells it again.
    configuration.settings = settings;
    configuration.users = new.users;
    configuration.log = new.log;
    let users = configuration.users.iter().len();
    tracing::info!("the configuration was reloaded; users: {users}");
}

/// A broker whose invariant failed must not go on: tokio would catch the panic of a task and keep the rest alive.
fn stop_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        eprintln!(
            "vowmq: an invariant failed, so the broker stops: going on could break what it has promised"
        );
        process::abort();
    }));
}

/// Every connection needs a descriptor, and systems start programs with few; how many there may be. The store has its
/// own, which no client can take.
fn raise_descriptor_limit(connections: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = setrlimit(Resource::Nofile, raised).map_or(limit.current, |()| limit.maximum);
    let Some(current) = current else { return usize::MAX };
    let sockets = usize::try_from(current).unwrap_or(usize::MAX).saturating_sub(DESCRIPTORS_RESERVED).max(1);
    if sockets < connections {
        tracing::info!(
            "limits.connections is {connections}, but the system allows {current} open files (ulimit -n), which is enough \
             for {sockets} connections; more will wait to be accepted"
        );
    }
    sockets
}

//! Starts the real binary for tests: as an operator would, on a directory of its own, with ports of its own.

pub mod client;
pub mod peer;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;
use tempfile::TempDir;

/// A directory that goes with the value, and a path in it for a store.
pub fn store_place() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a directory can be made");
    let store = place.path().join("store");
    (place, store)
}

/// The binary `vowmq` in the profile of this test. `cargo test --workspace` has built it; where it is missing or older
/// than its sources, it is built.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let mut profile = std::env::current_exe().expect("a test has a path");
        profile.pop();
        if profile.ends_with("deps") {
            profile.pop();
        }
        let binary = profile.join("vowmq");
        if !is_up_to_date(&binary) {
            build(&profile);
        }
        binary
    })
}

fn is_up_to_date(binary: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let sources = ["core/src", "io-real/src"].map(|folder| newest(&workspace().join(folder)));
    changed(binary).is_some_and(|built| sources.iter().all(|source| *source <= built))
}

/// When the latest change below a folder was.
fn newest(folder: &Path) -> SystemTime {
    let entries = std::fs::read_dir(folder).expect("a folder of sources").filter_map(Result::ok);
    let times = entries.map(|entry| {
        let metadata = entry.metadata().expect("a source file");
        let own = metadata.modified().expect("the system keeps times");
        if metadata.is_dir() { own.max(newest(&entry.path())) } else { own }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn build(profile: &Path) {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package", "vowmq"]);
    build.arg("--target-dir").arg(profile.parent().expect("a profile lies in a target directory"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().expect("cargo can be started");
    assert!(status.success(), "the broker cannot be built");
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace")
}

/// A running broker. Killed when dropped.
pub struct Vowmq {
    child: Child,
    /// Where it listens for MQTT.
    pub address: SocketAddr,
    /// Where it listens for AMQP, if its arguments say that it should.
    pub amqp: Option<SocketAddr>,
    /// What it said of its recovery.
    pub recovered: String,
}

impl Vowmq {
    /// Starts it on `directory`, with further arguments, and waits until it is ready.
    pub fn start(directory: &Path, arguments: &[&str]) -> Vowmq {
        Vowmq::start_at(directory, "127.0.0.1:0", arguments)
    }

    /// As `start`, on this address.
    pub fn start_at(directory: &Path, address: &str, arguments: &[&str]) -> Vowmq {
        // Its log goes beside its directory, and is appended to by every start there.
        let log = directory.with_extension("log");
        let stderr = OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        let child = Command::new(binary())
            .args(["serve", "--mqtt", address, "--data-dir"])
            .arg(directory)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the broker can be started");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut broker = Vowmq { child, address, amqp: None, recovered: String::new() };
        let lines = BufReader::new(broker.child.stdout.take().expect("its output is piped")).lines();
        for line in lines.map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("listening mqtt ") {
                broker.address = address.parse().expect("an address");
            } else if let Some(address) = line.strip_prefix("listening amqp ") {
                broker.amqp = address.parse().ok();
            } else if line.starts_with("recovered ") {
                broker.recovered = line;
            } else if line == "ready" {
                assert_ne!(broker.address.port(), 0, "it says where it listens before it is ready");
                return broker;
            }
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        panic!("the broker did not get ready: {said}");
    }

    /// SIGKILL: nothing is flushed, nobody is told.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is a child of this test");
    }

    /// SIGTERM; its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status().expect("kill can be started");
        assert!(status.success());
        self.child.wait().expect("it is a child of this test").code()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Vowmq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `vowmq` with arguments to its end.
pub fn vowmq(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().expect("the broker can be started")
}

/// An address that is free now, for a broker that has to come back at the same place.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("it is bound").to_string()
}

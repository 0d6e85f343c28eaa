//! The program as scripts see it: its lines, its signals, its exit codes.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

fn vowmq() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vowmq"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("VOWMQ_")) {
        command.env_remove(name);
    }
    command
}

/// A broker on a free port, stopped when the test ends, however it ends.
struct Broker {
    child: Child,
    lines: Vec<String>,
    log: BufReader<ChildStderr>,
}

impl Broker {
    fn start(data_dir: &Path, arguments: &[&str]) -> Broker {
        let mut command = vowmq();
        command.args(["serve", "--mqtt", "127.0.0.1:0", "--data-dir"]).arg(data_dir).args(arguments);
        Broker::started(command)
    }

    /// Waits for `ready`.
    fn started(mut command: Command) -> Broker {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("is piped"));
        let log = BufReader::new(child.stderr.take().expect("is piped"));
        let mut lines = Vec::new();
        for line in out.lines() {
            lines.push(line.expect("is text"));
            if lines.last().is_some_and(|line| line == "ready") {
                break;
            }
        }
        Broker { child, lines, log }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a child has a pid");
        kill_process(pid, signal).expect("the child runs");
    }

    /// Reads the log up to a line with this text.
    fn wait_for_log(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let count = self.log.read_line(&mut line).expect("is text");
            assert!(count > 0, "the log ended without {text:?}");
        }
        line
    }

    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("ends").code()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_broker_says_what_it_does_and_ends_in_order() {
    // If it failed, no script could start, find, or stop a broker.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let store = place.path().join("store");
    let broker = Broker::start(&store, &[]);
    let [listening, recovered, ready] = &broker.lines[..] else { panic!("{:?}", broker.lines) };
    let port = listening.strip_prefix("listening mqtt 127.0.0.1:").expect(listening);
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{listening}");
    assert!(recovered.starts_with("recovered 0 sessions, 0 queues, 0 messages in "), "{recovered}");
    assert_eq!(ready, "ready");

    let second = output(vowmq().arg("--data-dir").arg(&store).args(["--mqtt", "127.0.0.1:0"]));
    assert_eq!(second.status.code(), Some(1));
    assert!(errors(&second).contains(&format!("another vowmq (pid {}) uses", broker.child.id())));
    let check = output(vowmq().args(["check", "--data-dir"]).arg(&store));
    assert_eq!(check.status.code(), Some(3), "a running store cannot be checked");

    broker.signal(Signal::TERM);
    assert_eq!(broker.exit_code(), Some(0));
    let check = output(vowmq().args(["check", "--data-dir"]).arg(&store));
    assert_eq!(check.status.code(), Some(0), "{}", errors(&check));
    assert!(String::from_utf8_lossy(&check.stdout).starts_with("sound: "));
    let inspect = output(vowmq().args(["inspect", "--json", "--data-dir"]).arg(&store));
    assert_eq!((inspect.status.code(), inspect.stdout.len()), (Some(0), 0));

    let broker = Broker::start(&store, &[]);
    broker.signal(Signal::INT);
    assert_eq!(broker.exit_code(), Some(0), "a stopped store opens again");
}

#[test]
fn looking_at_a_missing_store_makes_nothing() {
    // If it failed, a misspelt path would be made, and called sound.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let missing = place.path().join("missing");
    for (command, exit) in [("check", 3), ("inspect", 1)] {
        let looked = output(vowmq().args([command, "--data-dir"]).arg(&missing));
        assert_eq!(looked.status.code(), Some(exit));
        assert!(errors(&looked).contains("there is no such directory"));
    }
    assert!(!missing.exists());
}

#[test]
fn a_weaker_promise_is_told() {
    // If it failed, an operator could believe in a durability that was switched off.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let broker = Broker::start(place.path(), &["--set", "sync=200 ms"]);
    let told = broker.lines.iter().any(|line| line.starts_with("sync every 200 ms: a power cut"));
    assert!(told, "{:?}", broker.lines);
}

#[test]
fn a_promise_that_a_reload_weakens_is_told() {
    // If it failed, one line in the file and a SIGHUP would end the promise, and nobody would have been warned.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let file = place.path().join("vowmq.toml");
    fs::write(&file, "").expect("writes");
    let path = file.to_string_lossy().into_owned();
    let mut broker = Broker::start(&place.path().join("store"), &["--config", &path]);
    for (text, told) in
        [("sync = \"never\"\n", "WARN vowmq::command::serve: sync never: a power cut"), ("", "sync always")]
    {
        fs::write(&file, text).expect("writes");
        broker.signal(Signal::HUP);
        broker.wait_for_log(told);
        broker.wait_for_log("the configuration was reloaded");
    }
}

#[test]
fn what_stands_in_the_way_of_a_start_is_named() {
    // If it failed, an operator would read "File exists" or "Address already in use" and not know which.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let file = place.path().join("file");
    fs::write(&file, "").expect("writes");
    for data_dir in [file.clone(), file.join("below")] {
        let refused = output(vowmq().args(["--mqtt", "127.0.0.1:0", "--data-dir"]).arg(&data_dir));
        assert_eq!(refused.status.code(), Some(1));
        assert!(errors(&refused).contains("no directory stands in its way"), "{}", errors(&refused));
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port").to_string();
    let twice = ["--mqtt", &address, "--mqtt", &address, "--data-dir"];
    let refused = output(vowmq().args(twice).arg(place.path().join("store")));
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains(&format!("{address}: Address already in use")), "{}", errors(&refused));
}

#[test]
fn a_reload_takes_a_good_file_and_leaves_a_bad_one() {
    // If it failed, a slip in the file would stop a running broker, or a change would do nothing.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let file = place.path().join("vowmq.toml");
    let write = |text: &str| fs::write(&file, text).expect("writes");
    write("");
    let path = file.to_string_lossy().into_owned();
    let mut broker = Broker::start(&place.path().join("store"), &["--config", &path]);
    write("[limits]\ninflight = 0\n");
    broker.signal(Signal::HUP);
    let line = broker.wait_for_log("not reloaded");
    assert!(line.contains("line 2, column 12: limits.inflight must be"), "{line}");
    write("segment_bytes = \"128 MiB\"\n[limits]\ninflight = 7\n");
    broker.signal(Signal::HUP);
    let line = broker.wait_for_log("only after a restart");
    assert!(line.contains("segment_bytes"), "{line}");
    broker.wait_for_log("the configuration was reloaded");
    broker.signal(Signal::TERM);
    assert_eq!(broker.exit_code(), Some(0));
}

#[test]
fn a_configuration_is_printed_or_refused() {
    // If it failed, an operator could not tell what is in force.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let file = place.path().join("vowmq.toml");
    fs::write(&file, "[limits]\ninflight = 7\n").expect("writes");
    let good = output(vowmq().arg("config").arg(&file).env("VOWMQ_SYNC", "never"));
    assert_eq!(good.status.code(), Some(0));
    let printed = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(printed.contains("\ninflight = 7\n") && printed.contains("\nsync = \"never\"\n"), "{printed}");
    fs::write(&file, "[limits]\ninflight = many\n").expect("writes");
    let bad = output(vowmq().arg("config").arg(&file));
    assert_eq!(bad.status.code(), Some(1));
    assert!(errors(&bad).contains("line 2, column "), "{}", errors(&bad));
    assert_eq!(output(vowmq().arg("--no-such-flag")).status.code(), Some(2), "usage");
}

#[test]
fn a_reload_does_not_open_a_listener_to_strangers() {
    // If it failed, a file that was cut short would let everybody in who reaches the machine.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let file = place.path().join("vowmq.toml");
    let made = output(vowmq().args(["user", "anna"]).stdin(password(place.path())));
    let users = format!("[users]\n{}", String::from_utf8_lossy(&made.stdout));
    fs::write(&file, format!("[listen]\nmqtt = \"0.0.0.0:0\"\namqp = \"127.0.0.1:0\"\n{users}"))
        .expect("writes");
    let mut command = vowmq();
    command.args(["serve", "--config"]).arg(&file).arg("--data-dir").arg(place.path().join("store"));
    let mut broker = Broker::started(command);
    fs::write(&file, "").expect("writes");
    broker.signal(Signal::HUP);
    let line = broker.wait_for_log("not reloaded");
    assert!(line.contains("vowmq listens on 0.0.0.0:0 since its start"), "{line}");
}

/// A file with a password, to be read from.
fn password(place: &Path) -> fs::File {
    let file = place.join("password");
    fs::write(&file, "secret\n").expect("writes");
    fs::File::open(&file).expect("opens")
}

#[test]
fn a_broker_that_was_paused_calls_nobody_silent() {
    // If it failed, a snapshot of the machine would end the connections of clients that did all they had to, and publish
    // their wills. [MQTT-3.1.2-24]
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let broker = Broker::start(place.path(), &[]);
    let address = broker.lines[0].strip_prefix("listening mqtt ").expect("the first line");
    let mut client = TcpStream::connect(address).expect("listens");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("is set");
    // CONNECT of "c" with a keep-alive of 1 s.
    client.write_all(b"\x10\x0d\0\x04MQTT\x04\x02\0\x01\0\x01c").expect("sends");
    assert_eq!(take::<4>(&mut client), [0x20, 2, 0, 0]);
    broker.signal(Signal::STOP);
    for _ in 0..7 {
        client.write_all(&[0xc0, 0]).expect("sends");
        thread::sleep(Duration::from_millis(500)); // the client's own time, while the broker's stands still
    }
    broker.signal(Signal::CONT);
    for _ in 0..7 {
        assert_eq!(take::<2>(&mut client), [0xd0, 0]);
    }
}

/// The next bytes.
fn take<const COUNT: usize>(stream: &mut TcpStream) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    stream.read_exact(&mut bytes).expect("comes");
    bytes
}

//! The software of the broker's machine: starts the broker as `vowmq serve` does (recover, listen, run until it
//! halts), and starts it again when it has ended.

use super::stage::{Stage, WALL_START_MS};
use super::storage::Storage;
use super::wire::Acceptor;
use crate::chance::Domain;
use crate::outcome::Checker;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::LocalSet;
use tokio::time::sleep;
use turmoil::net::TcpListener;
use vowmq::access::{Logins, Users};
use vowmq::clock::Clock;
use vowmq::recovery::recover;
use vowmq::shell::Shell;
use vowmq_core::Purpose;
use vowmq_core::ids::Seed;
use vowmq_core::input::Protocol;
use vowmq_core::limits::Settings;
use vowmq_core::output::Halt;
use vowmq_core::time::WallTime;

/// Where the broker listens.
pub(super) const PORT: u16 = 1883;

/// The longest time that an ordered end takes once the disk has what it must have: the shell's goodbye.
const GOODBYE_MS: u64 = 5_000;
/// Room for what the disk does before that.
const LAST_RECORDS_MS: u64 = 2_000;
/// How long the shell may take to end after the disk has failed it.
const HALT_MS: u64 = 5;
/// Until a broker that refused to start is started again.
const RETRY_MS: u64 = 50;

/// How a life of the process ended.
enum End {
    Killed,
    Refused(String),
    Halted(Halt),
}

/// Runs until the machine crashes.
pub(super) async fn machine(stage: Rc<Stage>) -> turmoil::Result {
    loop {
        let wait = stage.machine.borrow().down_until_ms.saturating_sub(stage.now_ms());
        sleep(Duration::from_millis(wait)).await;
        stage.machine.borrow_mut().begin_life();
        let kill = Rc::clone(&stage.machine.borrow().kill);
        // As the process has one of its own: with it, everything that the broker has left running ends.
        let process = LocalSet::new();
        let life = async {
            tokio::select! {
                biased;
                () = kill.notified() => End::Killed,
                end = serve(&stage) => end,
            }
        };
        let end = process.run_until(life).await;
        drop(process);
        ended(&stage, end);
    }
}

async fn serve(stage: &Rc<Stage>) -> End {
    let now_ms = stage.now_ms();
    let clock = Clock::start_at(WallTime(WALL_START_MS + now_ms));
    let mut storage = Storage::new(Rc::clone(stage));
    let recovered = match recover(&mut storage, &clock, settings(stage), seed(stage), Purpose::Serve).await {
        Ok(recovered) => recovered,
        Err(refusal) => return End::Refused(refusal.to_string()),
    };
    let messages = recovered.report.messages;
    let mut shell = Shell::new(recovered.broker, clock);
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await.expect("nobody else listens");
    shell.listen(Acceptor::new(Rc::clone(stage), listener), Protocol::Mqtt);
    let (commands, incoming) = unbounded_channel();
    {
        let mut machine = stage.machine.borrow_mut();
        machine.commands = Some(commands);
        machine.recovered = Some(messages);
        if machine.full {
            stage.ledger.borrow_mut().count("started on a full disk");
        }
        stage.ledger.borrow_mut().note("broker", &[machine.epoch, messages], || {
            format!("serves, and has found {messages} messages")
        });
    }
    End::Halted(shell.run(storage, Logins::of(Users::default()), incoming).await)
}

fn settings(stage: &Stage) -> Settings {
    let mut settings = stage.scenario.broker.settings();
    settings.limits.connect_ms = stage.scenario.connect_ms;
    settings
}

fn seed(stage: &Stage) -> Seed {
    let mut draws = stage.draws("broker", stage.epoch() << 8 | Domain::BrokerSeed as u64);
    let mut seed = [0; 32];
    seed.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&draws.number().to_le_bytes()));
    Seed(seed)
}

/// The process has ended: checks that it may, and sees to what follows.
fn ended(stage: &Stage, end: End) {
    let now_ms = stage.now_ms();
    let mut machine = stage.machine.borrow_mut();
    machine.commands = None;
    let mut ledger = stage.ledger.borrow_mut();
    let down_ms = match end {
        // Whoever killed it has said for how long.
        End::Killed => 0,
        End::Refused(why) => {
            ledger.note("broker", &[], || format!("refuses to start: {why}"));
            if machine.failed.is_none() && !machine.met_full {
                let text = format!("it refuses to start, and nothing was damaged: {why}");
                ledger.fail(Checker::Refusal, "broker", text);
            }
            RETRY_MS
        }
        End::Halted(halt) => {
            ledger.note("broker", &[], || format!("has ended: {halt}"));
            match (&halt, machine.shutdown, machine.failed) {
                (Halt::ShutDown, Some(shutdown), None) => {
                    ledger.count("shutdown");
                    let took_ms = now_ms - shutdown.asked_ms;
                    if took_ms > GOODBYE_MS + LAST_RECORDS_MS && !machine.met_full {
                        let text = format!("its ordered end took {took_ms} ms");
                        ledger.fail(Checker::Progress, "broker", text);
                    }
                    ledger.ended_in_order();
                    machine.down_until_ms = machine.down_until_ms.max(now_ms + shutdown.down_ms);
                    return;
                }
                (Halt::Storage { .. }, _, Some((_, failure))) => {
                    ledger.count("stopped by a disk error");
                    if failure.reboot {
                        machine.lose_power(&mut ledger, 0);
                        machine.switch_on();
                    }
                    failure.down_ms
                }
                (Halt::Storage { .. }, Some(shutdown), None) if machine.met_full => {
                    ledger.count("stopped by a full disk");
                    shutdown.down_ms
                }
                (Halt::ShutDown, _, _) | (Halt::Storage { .. }, _, _) => {
                    ledger.fail(Checker::Halt, "broker", format!("it ends without a reason: {halt}"));
                    0
                }
            }
        }
    };
    ledger.broker_ended();
    machine.down_until_ms = machine.down_until_ms.max(now_ms + down_ms);
}

/// Whether the process goes on though the disk has failed it, in words.
pub(super) fn goes_on_after_failure(stage: &Stage) -> Option<String> {
    let machine = stage.machine.borrow();
    let (failed_ms, _) = machine.failed?;
    let late_ms = stage.now_ms().checked_sub(failed_ms)?;
    let running = machine.commands.is_some() && machine.powered_on();
    (running && late_ms > HALT_MS)
        .then(|| format!("it still runs {late_ms} ms after an operation of its disk has failed"))
}

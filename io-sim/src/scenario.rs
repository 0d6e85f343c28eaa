//! A scenario: everything that decides a run. People write it as TOML, the generator makes it from a seed.
//!
//! All times are microseconds of simulated time. What a scenario leaves open (a latency within its range,
//! which sectors survive) follows from its `seed` by the keyed hash of `chance.rs`.

mod mqtt5;
mod rules;
mod settings;

pub(crate) use mqtt5::Asked;
pub use mqtt5::Mqtt5;
pub(crate) use rules::shared_filter;
pub use settings::{BrokerSettings, Sync};

use crate::fault::{Fault, When};
use crate::outcome::Checker;
use serde::{Deserialize, Serialize};
use vowmq_core::access::Access;
use vowmq_core::limits::{Limits, Overflow, Settings, SyncPolicy};

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows, for people.
    #[serde(default)]
    pub why: String,
    /// Decides what the scenario leaves open.
    pub seed: u64,
    /// How long operations and faults go on; afterwards everything is healed.
    pub fault_phase_us: u64,
    /// How long everything acknowledged may take to arrive after that.
    #[serde(default = "default_heal_us")]
    pub heal_us: u64,
    /// Cut the power once more when all is quiet, and look whether anything comes back.
    #[serde(default = "yes")]
    pub last_power_cut: bool,
    /// Effects without which the run shows nothing (names as in the summary).
    #[serde(default)]
    pub must_reach: Vec<String>,
    /// The checkers that count; all of them if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkers: Vec<Checker>,
    /// A configuration of the broker as its operator writes it, in place of `broker`. In a file, the name of a file
    /// beside it does as well (`configuration_file`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// The broker's settings.
    #[serde(default)]
    pub broker: BrokerSettings,
    /// Its settings at the second start, the third, and so on; the last ones stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<BrokerSettings>,
    /// The clock.
    #[serde(default, skip_serializing_if = "ClockSettings::is_right")]
    pub clock: ClockSettings,
    /// The network.
    #[serde(default)]
    pub network: NetworkSettings,
    /// The disk.
    #[serde(default)]
    pub disk: DiskSettings,
    /// The clients.
    pub clients: Vec<ClientProgram>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

fn default_heal_us() -> u64 {
    60_000_000
}

fn yes() -> bool {
    true
}

/// How the clocks run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockSettings {
    /// How much faster than the monotonic clock the wall clock runs, in millionths.
    pub wall_ppm: i32,
}

impl ClockSettings {
    fn is_right(&self) -> bool {
        *self == ClockSettings::default()
    }
}

/// How the network behaves when nothing is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSettings {
    /// Least time from one end to the other.
    pub latency_min_us: u64,
    /// Most time, slow segments aside.
    pub latency_max_us: u64,
    /// Segments that take `slow_us` more, of a hundred.
    pub slow_percent: u32,
    /// See there.
    pub slow_us: u64,
    /// Segments that are lost and sent again, of a thousand: they and all behind them come 200 ms later, 600 ms if that is
    /// lost too, and so on.
    pub lost_permille: u32,
    /// Writes that are split at any byte, of a hundred.
    pub split_percent: u32,
    /// Segments that have arrived and are read together with the next, of a hundred.
    pub coalesce_percent: u32,
    /// Bytes that may be on their way to a client, or arrived and unread there.
    pub window_bytes: usize,
    /// Times that the broker's outputs are fetched late, after further inputs, of a hundred.
    pub late_drain_percent: u32,
    /// Longest time until a client notices that the broker's machine is off.
    pub notice_us: u64,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        NetworkSettings {
            latency_min_us: 50,
            latency_max_us: 400,
            slow_percent: 2,
            slow_us: 5_000,
            lost_permille: 0,
            split_percent: 10,
            coalesce_percent: 50,
            window_bytes: 65_536,
            late_drain_percent: 20,
            notice_us: 300_000,
        }
    }
}

/// How the disk behaves when nothing is wrong, and what a power cut leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskSettings {
    /// Least time of an operation.
    pub latency_min_us: u64,
    /// Most time of an operation.
    pub latency_max_us: u64,
    /// What a power cut leaves of sectors that were not synced.
    pub survival: Survival,
    /// Unsynced directory entries that a power cut undoes, of a hundred.
    pub entry_lost_percent: u32,
}

impl Default for DiskSettings {
    fn default() -> Self {
        DiskSettings {
            latency_min_us: 20,
            latency_max_us: 500,
            survival: Survival::default(),
            entry_lost_percent: 50,
        }
    }
}

/// What becomes of an unsynced sector: the weights of its fates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Survival {
    /// As it was before.
    pub lost: u64,
    /// As written.
    pub kept: u64,
    /// Some 512-byte blocks as written, the others as before.
    pub torn: u64,
    /// Zeros.
    pub zero: u64,
    /// Anything.
    pub garbage: u64,
}

impl Default for Survival {
    fn default() -> Self {
        Survival { lost: 6, kept: 6, torn: 3, zero: 1, garbage: 1 }
    }
}

/// A client and what it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientProgram {
    /// Its client identifier: no two clients have the same.
    pub id: String,
    /// Whether it asks for a clean session.
    #[serde(default)]
    pub clean: bool,
    /// What it asks for as a client of MQTT 5; without it, it speaks MQTT 3.1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mqtt5: Option<Mqtt5>,
    /// Its will, sent with every CONNECT.
    #[serde(default)]
    pub will: Option<Will>,
    /// Keep-alive in seconds; 0 means none.
    #[serde(default = "default_keep_alive")]
    pub keep_alive_s: u16,
    /// QoS 1 and 2 messages that it publishes before it waits.
    #[serde(default = "default_window")]
    pub window: usize,
    /// Longest time until it answers what it received.
    #[serde(default)]
    pub answer_us: u64,
    /// QoS 2 PUBLISH and PUBREL packets that it sends twice, one right after the other, of a hundred; and PUBREC
    /// packets that it sends again when it comes back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeat_percent: u32,
    /// QoS 2 packets after which it opens another connection at once, while the old one is open, of a hundred.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hasty_percent: u32,
    /// Longest time until it comes back after its connection broke: at least 5,000.
    #[serde(default = "default_reconnect_us")]
    pub reconnect_us: u64,
    /// What it does, in order of time. It connects with its first operation and again whenever its connection
    /// breaks.
    pub operations: Vec<Operation>,
}

fn default_reconnect_us() -> u64 {
    200_000
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn default_keep_alive() -> u16 {
    2
}

fn default_window() -> usize {
    10
}

/// A will.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Will {
    /// Topic name.
    pub topic: String,
    /// 0, 1 or 2.
    pub qos: u8,
    /// Whether it is retained.
    #[serde(default)]
    pub retain: bool,
    /// With MQTT 5 and a session that is not clean: seconds that it waits for its client to come back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_s: u32,
}

/// An action at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// When.
    pub at_us: u64,
    /// What.
    #[serde(flatten)]
    pub action: Action,
}

/// What a client does. What needs a connection waits until there is one, except QoS 0 messages, which are
/// skipped then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// Connects, if it is not connected. With `clean`, it starts its session afresh, once; it takes its own connection over
    /// for that, and for another expiry.
    Connect {
        /// See there.
        #[serde(default)]
        clean: bool,
        /// With MQTT 5: what it asks for in the place of its usual expiry, once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_expiry_s: Option<u32>,
    },
    /// Publishes.
    Publish {
        /// Topic name.
        topic: String,
        /// 0, 1 or 2.
        qos: u8,
        /// Whether it is retained.
        #[serde(default)]
        retain: bool,
        /// Payload bytes. 0 is an empty payload; others are raised to what an identity needs.
        #[serde(default = "default_size")]
        size: u32,
        /// How many messages.
        #[serde(default = "one")]
        count: u32,
        /// With MQTT 5: seconds after which they are of no use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expiry_s: Option<u32>,
    },
    /// Subscribes.
    Subscribe {
        /// Topic filter.
        filter: String,
        /// 0, 1 or 2.
        qos: u8,
        /// More filters in the same packet, each with its QoS.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<(String, u8)>,
    },
    /// Unsubscribes.
    Unsubscribe {
        /// Topic filter.
        filter: String,
        /// More filters in the same packet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<String>,
    },
    /// Says goodbye and stays away until it is told to connect.
    Disconnect {
        /// With MQTT 5: seconds that its session stays from now on, if that changes; of a clean one it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_expiry_s: Option<u32>,
        /// With MQTT 5: its will is to be published nevertheless.
        #[serde(default, skip_serializing_if = "is_false")]
        keeps_will: bool,
    },
    /// Breaks its connection (reset).
    Drop,
    /// Vanishes without a word: the broker hears nothing. Connects again later by itself.
    Silence,
    /// Opens another connection with the same identifier while the old one is open.
    TakeOver,
    /// Reads nothing for a while.
    StopReading {
        /// How long.
        for_us: u64,
    },
    /// Sends all unacknowledged PUBLISH packets again, with DUP.
    Resend,
}

fn default_size() -> u32 {
    32
}

fn one() -> u32 {
    1
}

impl Action {
    /// What it asks of the broker: messages, subscriptions, or one for anything else.
    pub fn operations(&self) -> u64 {
        match self {
            Action::Publish { count, .. } => u64::from(*count),
            Action::Subscribe { more, .. } => 1 + more.len() as u64,
            Action::Unsubscribe { more, .. } => 1 + more.len() as u64,
            _ => 1,
        }
    }
}

impl ClientProgram {
    /// A client that does nothing.
    pub fn new(id: &str) -> ClientProgram {
        ClientProgram {
            id: id.to_owned(),
            clean: false,
            mqtt5: None,
            will: None,
            keep_alive_s: default_keep_alive(),
            window: default_window(),
            answer_us: 0,
            repeat_percent: 0,
            hasty_percent: 0,
            reconnect_us: default_reconnect_us(),
            operations: Vec::new(),
        }
    }
}

impl Scenario {
    /// A scenario in which nothing happens, with everything as it is when nothing is said.
    pub fn empty(seed: u64) -> Scenario {
        Scenario {
            why: String::new(),
            seed,
            fault_phase_us: 0,
            heal_us: default_heal_us(),
            last_power_cut: true,
            must_reach: Vec::new(),
            checkers: Vec::new(),
            configuration: None,
            broker: BrokerSettings::default(),
            restarts: Vec::new(),
            clock: ClockSettings::default(),
            network: NetworkSettings::default(),
            disk: DiskSettings::default(),
            clients: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Operations and faults together.
    pub fn size(&self) -> usize {
        self.clients.iter().map(|client| client.operations.len()).sum::<usize>() + self.faults.len()
    }

    /// What its clients do, all together.
    pub fn operations(&self) -> u64 {
        self.clients.iter().flat_map(|client| &client.operations).map(|at| at.action.operations()).sum()
    }

    /// The broker's settings at a start, counted from 0.
    pub(crate) fn settings(&self, start: u64) -> Settings {
        let last = self.restarts.len().checked_sub(1);
        match (start.checked_sub(1), last) {
            (Some(restart), Some(last)) => self.restarts[last.min(restart as usize)].settings(),
            (Some(_), None) | (None, _) => self.first_settings(),
        }
    }

    fn first_settings(&self) -> Settings {
        match &self.configuration {
            Some(text) => configured(text).expect("a scenario is checked before it is run"),
            None => self.broker.settings(),
        }
    }

    /// All settings that may be in force at some time.
    pub(crate) fn all_settings(&self) -> impl Iterator<Item = Settings> + '_ {
        let reloaded = self.faults.iter().filter_map(|fault| match fault {
            Fault::Reload { broker, .. } => Some(&**broker),
            _ => None,
        });
        let later = self.restarts.iter().chain(reloaded);
        std::iter::once(self.first_settings()).chain(later.map(BrokerSettings::settings))
    }

    /// Whether clients have to prove who they are, at some time.
    pub(crate) fn has_users(&self) -> bool {
        self.all_settings().any(|settings| settings.access != Access::Everybody)
    }

    /// Whether some settings give up the promise that an acknowledgement means "on disk".
    pub fn gives_up_the_promise(&self) -> bool {
        self.all_settings().any(|settings| settings.sync != SyncPolicy::Always)
    }

    /// Whether queues have bounds of their own at some time, so that messages may be dropped or refused.
    pub(crate) fn has_bounded_queues(&self) -> bool {
        self.all_settings().any(|settings| is_bounded(&settings.limits))
    }

    /// Messages in a queue at the most, whatever settings are in force; none where some have no bound.
    pub(crate) fn queue_messages_max(&self) -> Option<u64> {
        let bounds = self.all_settings().map(|settings| settings.limits.queue_messages);
        bounds.map(|bound| (bound > 0).then_some(bound)).try_fold(0, |most, bound| Some(bound?.max(most)))
    }

    /// Whether a publisher may be refused, and so never come to an end.
    pub(crate) fn may_refuse_publishers(&self) -> bool {
        let refuses = |limits: &Limits| is_bounded(limits) && limits.queue_overflow == Overflow::Refuse;
        self.all_settings().any(|settings| refuses(&settings.limits))
    }

    /// Whether space runs out for a while.
    pub(crate) fn has_full_disk(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::DiskFull { .. }))
    }

    /// Whether the disk, or the process, may take longer than usual for what nobody waits for.
    pub(crate) fn has_slow_disk(&self) -> bool {
        let slow = |fault: &Fault| {
            matches!(fault, Fault::DiskFull { .. } | Fault::SlowDisk { .. } | Fault::Pause { .. })
        };
        self.faults.iter().any(slow)
    }
}

fn is_bounded(limits: &Limits) -> bool {
    limits.queue_messages > 0 || limits.queue_bytes > 0
}

/// The core's settings in a configuration of the broker.
fn configured(text: &str) -> Result<Settings, String> {
    let origin = std::path::Path::new("configuration");
    let configuration =
        vowmq::configuration::Configuration::from_toml(origin, text).map_err(|error| error.to_string())?;
    Ok(configuration.settings)
}

/// Reads a scenario from a file; a `configuration_file` it names is looked for beside it.
///
/// # Errors
/// The system's words, the parser's, or what `Scenario::check` says, each with the file's name.
pub fn read(path: &std::path::Path) -> Result<Scenario, String> {
    let words = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| words(error.to_string()))?;
    if text.trim_start().starts_with('{') {
        return parse(&text).map_err(words);
    }
    let mut table: toml::Table = toml::from_str(&text).map_err(|error| words(error.to_string()))?;
    let Some(name) = table.remove("configuration_file") else { return parse(&text).map_err(words) };
    let name = name.as_str().ok_or_else(|| words("configuration_file is the name of a file".to_owned()))?;
    let file = path.with_file_name(name);
    let configuration =
        std::fs::read_to_string(&file).map_err(|error| words(format!("{}: {error}", file.display())))?;
    table.insert("configuration".to_owned(), toml::Value::String(configuration));
    let scenario: Scenario = table.try_into().map_err(|error: toml::de::Error| words(error.to_string()))?;
    scenario.check().map_err(words)?;
    Ok(scenario)
}

/// Parses a scenario: JSON where the text begins with a brace, else TOML.
///
/// # Errors
/// The parser's words, or what `Scenario::check` says.
pub fn parse(text: &str) -> Result<Scenario, String> {
    let scenario: Scenario = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        toml::from_str(text).map_err(|error| error.to_string())?
    };
    scenario.check()?;
    Ok(scenario)
}

/// Faults of a scenario by the moment that sets them off.
pub(crate) fn at_times(faults: &[Fault]) -> impl Iterator<Item = (usize, u64)> + '_ {
    faults.iter().enumerate().filter_map(|(index, fault)| match fault.when() {
        When::AtUs(at) => Some((index, *at)),
        When::WriteSince { .. }
        | When::DiskOperation(_)
        | When::RecoveryOperation(_)
        | When::Sync(_)
        | When::Write(_)
        | When::Read(_) => None,
    })
}

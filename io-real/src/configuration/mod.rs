//! The configuration: defaults, then the file, then the environment, then the flags; each overrides what is
//! before it. `setting::SETTINGS` lists all that can be set.

mod error;
mod file;
mod quantity;
mod setting;
mod value;

pub use error::{ConfigurationError, Origin};

use crate::access::{Users, Verifier};
use setting::{SETTINGS, Setting};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use vowmq_core::access::Access;
use vowmq_core::input::Protocol;
use vowmq_core::limits::{OutOfRange, Settings};

/// The beginning of every environment variable that is ours.
const VARIABLE_PREFIX: &str = "VOWMQ_";

/// The table of users: each key is a name, and no setting.
const USERS_PREFIX: &str = "users.";

const USERS_IN_FILE: &str = "users come from the table [users] of the configuration file alone";

/// The variable that names the configuration file.
const FILE_VARIABLE: &str = "VOWMQ_CONFIG";

/// What is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The directory of the store.
    pub data_dir: PathBuf,
    /// Addresses for MQTT.
    pub listen_mqtt: Vec<SocketAddr>,
    /// Addresses for AMQP.
    pub listen_amqp: Vec<SocketAddr>,
    /// Whether clients that nobody can identify may connect: from other machines without users, and beside users.
    pub allow_anonymous: bool,
    /// Who may connect; none: everybody.
    pub users: Users,
    /// The filter of the log.
    pub log: String,
    /// What the core takes.
    pub settings: Settings,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            data_dir: PathBuf::from("./vowmq-data"),
            listen_mqtt: vec![SocketAddr::from(([127, 0, 0, 1], 1883))],
            listen_amqp: vec![SocketAddr::from(([127, 0, 0, 1], 5672))],
            allow_anonymous: false,
            users: Users::default(),
            log: "info".to_owned(),
            settings: Settings::default(),
        }
    }
}

/// A setting that the command line overrides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// As the operator wrote it, for complaints.
    pub name: String,
    /// The setting's key.
    pub key: String,
    /// Its value, as text; several addresses are separated by commas.
    pub value: String,
}

/// Where a configuration is read from. Read again at every reload.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file, if one was named.
    pub file: Option<PathBuf>,
    /// The environment.
    pub variables: Vec<(String, String)>,
    /// The command line.
    pub flags: Vec<Flag>,
}

impl Sources {
    /// The file, the environment of this process (which may name the file), and the flags.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<Flag>) -> Sources {
        let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        let variables: Vec<(String, String)> = std::env::vars_os().filter_map(readable).collect();
        let named = variables.iter().find(|(name, value)| name == FILE_VARIABLE && !value.is_empty());
        let file = file.or_else(|| named.map(|(_, value)| PathBuf::from(value)));
        Sources { file, variables, flags }
    }

    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn load(&self) -> Result<Configuration, ConfigurationError> {
        let mut loading = Loading::default();
        if let Some(file) = &self.file {
            let source = fs::read_to_string(file).map_err(|error| ConfigurationError {
                origin: Origin::File(file.clone()),
                message: format!("the configuration cannot be read: {error}"),
            })?;
            loading.file(file, &source)?;
        }
        loading.variables(&self.variables)?;
        loading.flags(&self.flags)?;
        loading.checked()
    }
}

/// Kubernetes and Docker tell every container of a service named "vowmq" where it is, in variables of these names.
fn is_service_link(name: &str) -> bool {
    name == "VOWMQ_PORT" || name.starts_with("VOWMQ_PORT_") || name.starts_with("VOWMQ_SERVICE_")
}

/// A configuration on its way, with who set what.
#[derive(Default)]
struct Loading {
    configuration: Configuration,
    origins: BTreeMap<&'static str, Origin>,
}

impl Loading {
    fn file(&mut self, file: &Path, source: &str) -> Result<(), ConfigurationError> {
        for entry in file::entries(file, source)? {
            if let Some(name) = entry.key.strip_prefix(USERS_PREFIX) {
                self.user(name, &entry)?;
                continue;
            }
            if entry.key == "users" {
                let message =
                    "users is a table: a line [users], and below it a line for each user".to_owned();
                return Err(ConfigurationError { origin: entry.key_origin, message });
            }
            let Some(setting) = setting::find(&entry.key) else {
                let keys = SETTINGS.iter().map(|setting| setting.key.to_owned());
                let message = format!("there is no setting `{}`{}", entry.key, nearest(&entry.key, keys));
                return Err(ConfigurationError { origin: entry.key_origin, message });
            };
            let set = setting.place.set(&mut self.configuration, &entry.value);
            self.remember(setting, entry.value_origin, set)?;
        }
        Ok(())
    }

    /// A line of `[users]`: the name, and what is kept of the password.
    fn user(&mut self, name: &str, entry: &file::Entry) -> Result<(), ConfigurationError> {
        // What is in the line is not for a log.
        let wrong = |origin: &Origin, message: String| {
            let message = format!("users: {message}");
            ConfigurationError { origin: origin.without_text(), message }
        };
        let value::Written::Text(text) = &entry.value else {
            return Err(wrong(
                &entry.value_origin,
                format!("{name:?}: expected text, as `vowmq user NAME` prints it"),
            ));
        };
        let verifier =
            text.parse().map_err(|error| wrong(&entry.value_origin, format!("{name:?}: {error}")))?;
        self.configuration.users.add(name, verifier).map_err(|error| wrong(&entry.key_origin, error))
    }

    fn variables(&mut self, variables: &[(String, String)]) -> Result<(), ConfigurationError> {
        let ours = variables.iter().filter(|(name, _)| {
            name.starts_with(VARIABLE_PREFIX) && name != FILE_VARIABLE && !is_service_link(name)
        });
        for (name, value) in ours {
            let origin = Origin::Variable(name.clone());
            if name.starts_with("VOWMQ_USERS") {
                return Err(ConfigurationError { origin, message: USERS_IN_FILE.to_owned() });
            }
            let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == *name) else {
                let message = format!("there is no such setting{}", nearest(name, variable_names()));
                return Err(ConfigurationError { origin, message });
            };
            let set = setting.place.set_text(&mut self.configuration, value);
            self.remember(setting, origin, set)?;
        }
        Ok(())
    }

    fn flags(&mut self, flags: &[Flag]) -> Result<(), ConfigurationError> {
        for flag in flags {
            if flag.key == "users" || flag.key.starts_with(USERS_PREFIX) {
                let origin = Origin::Flag("--set users".to_owned());
                return Err(ConfigurationError { origin, message: USERS_IN_FILE.to_owned() });
            }
            let origin = Origin::Flag(flag.name.clone());
            let Some(setting) = setting::find(&flag.key) else {
                let keys = SETTINGS.iter().map(|setting| setting.key.to_owned());
                let message = format!("there is no setting `{}`{}", flag.key, nearest(&flag.key, keys));
                return Err(ConfigurationError { origin, message });
            };
            let set = setting.place.set_text(&mut self.configuration, &flag.value);
            self.remember(setting, origin, set)?;
        }
        Ok(())
    }

    fn remember(
        &mut self,
        setting: &'static Setting,
        origin: Origin,
        set: Result<(), String>,
    ) -> Result<(), ConfigurationError> {
        match set {
            Ok(()) => {
                self.origins.insert(setting.key, origin);
                Ok(())
            }
            Err(message) => {
                Err(ConfigurationError { origin, message: format!("{}: {message}", setting.key) })
            }
        }
    }

    /// Who names listeners on the command line gets these, and no others that nobody asked for.
    fn leave_out_listeners(&mut self) {
        let by_flag = |key: &str| matches!(self.origins.get(key), Some(Origin::Flag(_)));
        let unasked = |key: &str| !self.origins.contains_key(key);
        let any = by_flag("listen.mqtt") || by_flag("listen.amqp");
        if any && unasked("listen.mqtt") {
            self.configuration.listen_mqtt.clear();
        }
        if any && unasked("listen.amqp") {
            self.configuration.listen_amqp.clear();
        }
    }

    /// Checks what concerns more than one value.
    fn checked(mut self) -> Result<Configuration, ConfigurationError> {
        self.leave_out_listeners();
        if let Err(outside) = self.configuration.settings.check() {
            return Err(self.out_of_range(&outside));
        }
        if let Err(error) = self.configuration.log.parse::<tracing_subscriber::EnvFilter>() {
            return Err(self.wrong("log", &format!("log: {error}")));
        }
        // The filter would take a bare word for a module's name, and log nothing at all after a slip of the pen.
        let slip = self.configuration.log.split(',').map(str::trim).find(|part| !is_level_or_pair(part));
        if let Some(part) = slip {
            let levels = "error, warn, info, debug, trace, off, or module=level";
            return Err(self.wrong("log", &format!("log: {part:?} is none of {levels}")));
        }
        let listeners = self.configuration.listeners();
        if listeners.is_empty() {
            return Err(self.wrong("listen.mqtt", "listen.mqtt: a broker without a listener serves nobody"));
        }
        if let Some((protocol, address)) = self.configuration.open_to_strangers(&listeners) {
            let key = match protocol {
                Protocol::Mqtt => "listen.mqtt",
                Protocol::Amqp => "listen.amqp",
            };
            let message = format!(
                "{key}: {address} can be reached from other machines, and there are no [users]; add some \
                 (`vowmq user NAME` makes the line), or write `allow_anonymous = true` if everybody who reaches it may \
                 publish and subscribe, or listen on 127.0.0.1"
            );
            return Err(self.wrong(key, &message));
        }
        self.configuration.settings.access = self.configuration.access();
        Ok(self.configuration)
    }

    /// A value that is outside its range, by itself or beside another one: the place is that of the one that was set.
    fn out_of_range(&self, outside: &OutOfRange) -> ConfigurationError {
        let named = |name: &str| SETTINGS.iter().find(|setting| setting.core_name() == name);
        let key = named(outside.name).map_or(outside.name, |setting| setting.key);
        let mut message = format!("{key} must be {}", outside.rule);
        let Some((one, other)) = named(outside.name).zip(outside.beside.and_then(named)) else {
            return self.wrong(key, &message);
        };
        let values = [one, other].map(|setting| {
            let default = if self.origins.contains_key(setting.key) { "" } else { " (the default)" };
            format!("{} = {}{default}", setting.key, setting.place.show(&self.configuration))
        });
        message.push_str(&format!("; in force are {}", values.join(" and ")));
        let place = if self.origins.contains_key(key) { key } else { other.key };
        self.wrong(place, &message)
    }

    fn wrong(&self, key: &str, message: &str) -> ConfigurationError {
        let origin = self.origins.get(key).cloned().unwrap_or(Origin::Default);
        ConfigurationError { origin, message: message.to_owned() }
    }
}

impl Configuration {
    /// What a configuration file says, without environment and flags. `file` is its name for complaints.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn from_toml(file: &Path, source: &str) -> Result<Configuration, ConfigurationError> {
        let mut loading = Loading::default();
        loading.file(file, source)?;
        loading.checked()
    }

    /// What is listened on, in the order of the listeners' numbers.
    pub fn listeners(&self) -> Vec<(Protocol, SocketAddr)> {
        let mqtt = self.listen_mqtt.iter().map(|address| (Protocol::Mqtt, *address));
        mqtt.chain(self.listen_amqp.iter().map(|address| (Protocol::Amqp, *address))).collect()
    }

    /// The first of these addresses that other machines reach, where everybody could connect and nobody has said so.
    pub fn open_to_strangers(&self, listeners: &[(Protocol, SocketAddr)]) -> Option<(Protocol, SocketAddr)> {
        let everybody = self.users.is_empty() && !self.allow_anonymous;
        listeners.iter().copied().find(|(_, address)| everybody && !address.ip().is_loopback())
    }

    /// Who may connect.
    fn access(&self) -> Access {
        match self.users.is_empty() {
            true => Access::Everybody,
            false => Access::Users { or_anonymous: self.allow_anonymous },
        }
    }

    /// The whole configuration as TOML, each setting with what it means.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut table = "";
        for setting in SETTINGS {
            let (its_table, name) = setting.key.split_once('.').unwrap_or(("", setting.key));
            if its_table != table {
                text.push_str(&format!("\n[{its_table}]\n"));
                table = its_table;
            }
            let restart = if setting.at_start_only { " Read at start." } else { "" };
            text.push_str(&format!("# {}{restart}\n{name} = {}\n", setting.what, setting.place.show(self)));
        }
        if !self.users.is_empty() {
            text.push_str("\n[users]\n");
        }
        for (name, verifier) in self.users.iter() {
            text.push_str(&user_line(name, verifier));
        }
        text
    }

    /// The keys of settings that differ in `new` and take effect only at the next start.
    pub fn needing_restart(&self, new: &Configuration) -> Vec<&'static str> {
        let differs = |setting: &&Setting| setting.place.show(self) != setting.place.show(new);
        SETTINGS
            .iter()
            .filter(|setting| setting.at_start_only)
            .filter(differs)
            .map(|setting| setting.key)
            .collect()
    }
}

/// A line of `[users]`.
pub fn user_line(name: &str, verifier: &Verifier) -> String {
    let mut key = String::new();
    for character in name.chars() {
        if matches!(character, '"' | '\\') {
            key.push('\\');
        }
        key.push(character);
    }
    format!("\"{key}\" = \"{verifier}\"\n")
}

fn variable_names() -> impl Iterator<Item = String> {
    SETTINGS.iter().map(Setting::variable).chain([FILE_VARIABLE.to_owned()])
}

/// A hint at the name that is most like `wrong`, if one is.
fn nearest(wrong: &str, names: impl Iterator<Item = String>) -> String {
    let likeness = |name: &String| strsim::jaro_winkler(wrong, name);
    let best = names.max_by(|left, right| likeness(left).total_cmp(&likeness(right)));
    best.filter(|name| likeness(name) > 0.7)
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;

fn is_level_or_pair(directive: &str) -> bool {
    let levels = ["error", "warn", "info", "debug", "trace", "off"];
    directive.contains('=') || levels.iter().any(|level| directive.eq_ignore_ascii_case(level))
}

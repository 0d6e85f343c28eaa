//! The configuration from the outside: what is accepted, what is refused, and with which words.

use super::*;
use vowmq_core::limits::{Overflow, SyncPolicy};

fn load(source: &str) -> Result<Configuration, ConfigurationError> {
    let mut loading = Loading::default();
    loading.file(Path::new("vowmq.toml"), source)?;
    loading.checked()
}

/// Of the password "pencil" (RFC 7677 §3).
const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=\
                        :wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

fn refusal(source: &str) -> String {
    load(source).expect_err("refused").to_string()
}

#[test]
fn every_setting_that_is_printed_is_read_back() {
    // If it failed, `vowmq config` would print a file that means something else, or none at all.
    let mut other = Configuration {
        data_dir: PathBuf::from("/srv/a \"b\" \\c"),
        listen_mqtt: vec!["[::1]:0".parse().expect("is an address"), "127.0.0.1:9".parse().expect("is one")],
        listen_amqp: Vec::new(),
        allow_anonymous: true,
        users: Users::default(),
        log: "warn,vowmq=debug".to_owned(),
        settings: Settings::default(),
    };
    other.settings.sync = SyncPolicy::EveryMs(200);
    other.settings.message_events = true;
    other.settings.limits.queue_overflow = Overflow::Refuse;
    other.settings.limits.session_expiry_ms = 0;
    other.settings.limits.queue_bytes = 1_000_001;
    other.users.add("a \"b\' \\.c", VERIFIER.parse().expect("is one")).expect("a name");
    other.settings.access = Access::Users { or_anonymous: true };
    for configuration in [Configuration::default(), other] {
        let printed = configuration.to_toml();
        assert_eq!(load(&printed), Ok(configuration), "{printed}");
    }
}

#[test]
fn every_setting_can_be_set_by_itself() {
    // If it failed, a key would be accepted and do nothing, or set its neighbour.
    for setting in SETTINGS {
        let before = Configuration::default();
        let text = match setting.place.show(&before).as_str() {
            "true" => "false",
            "false" => "true",
            "\"always\"" => "never",
            "\"drop-oldest\"" => "refuse",
            list if list.starts_with('[') => "127.0.0.1:7",
            "\"./vowmq-data\"" => "elsewhere",
            "\"info\"" => "debug",
            span if ["ms\"", " s\"", " d\""].iter().any(|unit| span.ends_with(unit)) => "77 ms",
            // A span of time of 0 shows no unit.
            _ if setting.place.set_text(&mut before.clone(), "77").is_err() => "77 ms",
            _ => "77",
        };
        let mut after = before.clone();
        setting.place.set_text(&mut after, text).expect("accepted");
        let changed: Vec<&str> = SETTINGS
            .iter()
            .filter(|each| each.place.show(&before) != each.place.show(&after))
            .map(|each| each.key)
            .collect();
        assert_eq!(changed, [setting.key]);
    }
}

#[test]
fn every_range_the_core_names_has_a_key() {
    // If it failed, a complaint about a range would name a setting that the file does not know.
    let mut settings = Settings::default();
    settings.limits.connect_ms = 0;
    let name = settings.check().expect_err("outside its range").name;
    assert!(SETTINGS.iter().any(|setting| setting.core_name() == name), "{name}");
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    // If it failed, a misspelt limit would silently not hold.
    let text = refusal("data_dir = \"x\"\n\n[limits]\ninflihgt = 3\n");
    let expected = "vowmq.toml: line 4, column 1: there is no setting `limits.inflihgt`; did you mean \
                    `limits.inflight`?\n  |\n4 | inflihgt = 3\n  | ^";
    assert_eq!(text, expected);
    assert!(refusal("[quux]\na = 1").contains("line 2, column 1: there is no setting `quux.a`"));
    assert!(refusal("[limits.inner]\na = 1").contains("there is no setting `limits.inner`"));
}

#[test]
fn a_wrong_value_is_refused_with_its_place() {
    // If it failed, the operator would have to guess which line is meant.
    let text = refusal("# é\nsync = \"sometimes\"\n");
    assert!(text.starts_with("vowmq.toml: line 2, column 8: sync: expected \"always\", \"never\""), "{text}");
    let text = refusal("limits.inflight = -1");
    assert!(text.starts_with("vowmq.toml: line 1, column 19: limits.inflight: -1 is negative"), "{text}");
    let text = refusal("limits = { inflight = 70000 }");
    assert!(
        text.starts_with("vowmq.toml: line 1, column 23: limits.inflight must be between 1 and 65534"),
        "{text}"
    );
    let text = refusal("[limits]\nconnect_time = 0");
    assert!(
        text.starts_with("vowmq.toml: line 2, column 16: limits.connect_time must be at least 1"),
        "{text}"
    );
    assert!(refusal("[limits]\nconnect_time = 10").contains("needs a unit"));
    assert!(refusal("[limits]\nretained = 1.5").contains("expected a whole number"));
    assert!(refusal("log = \"vowmq=loud\"").starts_with("vowmq.toml: line 1, column 7: log: "));
}

#[test]
fn broken_toml_is_refused_with_its_place() {
    // If it failed, half of a file could be in force.
    let text = refusal("sync = \"always\"\nlog = \n");
    assert!(text.starts_with("vowmq.toml: line 2, column "), "{text}");
    assert!(refusal("sync = \"always\"\nsync = \"never\"\n").contains("line 2, column 1"));
}

#[test]
fn other_machines_are_let_in_only_on_the_operators_word() {
    // If it failed, a broker without users would stand open to a network by a slip.
    let text = refusal("[listen]\nmqtt = [\"127.0.0.1:1883\", \"0.0.0.0:1883\"]");
    assert!(text.contains("0.0.0.0:1883 can be reached from other machines"), "{text}");
    load("allow_anonymous = true\n[listen]\nmqtt = \"0.0.0.0:1883\"").expect("allowed");
    load("[listen]\nmqtt = [\"localhost:0\", \"[::1]:1883\"]").expect("loopback");
    let text = refusal("[listen]\namqp = [\"0.0.0.0:5672\"]");
    assert!(text.contains("listen.amqp: 0.0.0.0:5672 can be reached from other machines"), "{text}");
    load("[listen]\nmqtt = []").expect("AMQP is left");
    assert!(refusal("[listen]\nmqtt = []\namqp = []").contains("serves nobody"));
}

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    // If it failed, an operator could not tell which of three values holds.
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let file = place.path().join("vowmq.toml");
    fs::write(&file, "log = \"warn\"\nsync = \"never\"\n[limits]\ninflight = 1\n").expect("writes");
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut sources = Sources {
        file: Some(file),
        variables: vec![
            variable("HOME", "x"),
            variable("VOWMQ_LIMITS_INFLIGHT", "2"),
            variable("VOWMQ_SYNC", "10 ms"),
            variable("VOWMQ_LISTEN_MQTT", "127.0.0.1:1, [::1]:2"),
        ],
        flags: vec![Flag { name: "--set".into(), key: "limits.inflight".into(), value: "3".into() }],
    };
    let loaded = sources.load().expect("accepted");
    assert_eq!(loaded.log, "warn");
    assert_eq!(loaded.settings.sync, SyncPolicy::EveryMs(10));
    assert_eq!(loaded.settings.limits.inflight, 3);
    assert_eq!(loaded.listen_mqtt.len(), 2);

    sources.variables.push(variable("VOWMQ_LIMIT_INFLIGHT", "2"));
    let text = sources.load().expect_err("unknown").to_string();
    let expected = "environment variable VOWMQ_LIMIT_INFLIGHT: there is no such setting; did you mean \
                    `VOWMQ_LIMITS_INFLIGHT`?";
    assert_eq!(text, expected);
}

#[test]
fn who_names_listeners_on_the_command_line_gets_these_alone() {
    // If it failed, a second broker with `--mqtt 127.0.0.1:0` could not start, because the first one has AMQP's port.
    let flag = |key: &str| Flag { name: "--x".into(), key: key.into(), value: "127.0.0.1:0".into() };
    let with = |flags: Vec<Flag>| Sources { flags, ..Sources::default() }.load().expect("accepted");
    let counts = |loaded: Configuration| (loaded.listen_mqtt.len(), loaded.listen_amqp.len());
    assert_eq!(counts(with(vec![])), (1, 1));
    assert_eq!(counts(with(vec![flag("listen.mqtt")])), (1, 0));
    assert_eq!(counts(with(vec![flag("listen.amqp")])), (0, 1));
    assert_eq!(counts(with(vec![flag("listen.mqtt"), flag("listen.amqp")])), (1, 1));
}

#[test]
fn a_reload_tells_what_needs_a_restart() {
    // If it failed, an operator would believe that a changed listener listens.
    let old = Configuration::default();
    let mut new = old.clone();
    new.settings.limits.inflight = 7;
    new.settings.segment_bytes *= 2;
    new.listen_mqtt.clear();
    assert_eq!(old.needing_restart(&new), ["segment_bytes", "listen.mqtt"]);
}

#[test]
fn a_slip_in_the_log_filter_is_refused() {
    // If it failed, `--log verbose` would silence every warning.
    let flag = |value: &str| Flag { name: "--log".into(), key: "log".into(), value: value.into() };
    for (filter, good) in
        [("verbose", false), ("info,vowmq=tarce", false), ("DEBUG", true), ("warn,vowmq::shell=trace", true)]
    {
        let sources = Sources { flags: vec![flag(filter)], ..Sources::default() };
        assert_eq!(sources.load().is_ok(), good, "{filter}");
    }
}

#[test]
fn links_of_a_container_platform_are_no_settings() {
    // If it failed, a Kubernetes service named vowmq would keep its own pods from starting.
    let names = ["VOWMQ_PORT", "VOWMQ_PORT_1883_TCP_ADDR", "VOWMQ_SERVICE_HOST", "VOWMQ_SERVICE_PORT_MQTT"];
    let variables = names.iter().map(|name| ((*name).to_owned(), "tcp://10.0.0.1:1883".to_owned())).collect();
    let sources = Sources { variables, ..Sources::default() };
    sources.load().expect("accepted");
}

#[test]
fn users_decide_who_may_connect() {
    // If it failed, a broker with users would let everybody in, or refuse to be reached where it need not.
    let access = |source: &str| load(source).expect("accepted").settings.access;
    assert_eq!(access(""), Access::Everybody);
    let users = format!("[listen]\nmqtt = \"0.0.0.0:1883\"\n[users]\n\"a.b\" = \"{VERIFIER}\"");
    assert_eq!(access(&users), Access::Users { or_anonymous: false });
    assert_eq!(access(&format!("allow_anonymous = true\n{users}")), Access::Users { or_anonymous: true });
    let open = refusal("[listen]\nmqtt = \"0.0.0.0:1883\"\n[users]\n");
    assert!(open.contains("`vowmq user NAME`"), "{open}");
}

#[test]
fn a_wrong_line_of_a_user_is_told_with_its_place() {
    for (line, words) in [
        ("alice = \"pencil\"", "as `vowmq user NAME` prints it"),
        ("alice = 3", "expected text"),
        ("\"a\\nb\" = \"x\"", "`vowmq user NAME`"),
        ("alice.b = \"x\"", "expected text"),
        (&format!("\"\" = \"{VERIFIER}\""), "must not be empty"),
    ] {
        let refusal = refusal(&format!("[users]\n{line}"));
        assert!(!refusal.contains("pencil"), "what is in the line is not for a log: {refusal}");
        assert!(refusal.starts_with("vowmq.toml: line 2,") && refusal.contains(words), "{refusal}");
    }
}

#[test]
fn users_come_from_the_file_alone() {
    // If it failed, a name and what is kept of its password would be in a list of processes, or silently left out.
    let flag = Flag { name: "--set users.a=x".to_owned(), key: "users.a".to_owned(), value: "x".to_owned() };
    let sources = [
        Sources { flags: vec![flag], ..Sources::default() },
        Sources { variables: vec![("VOWMQ_USERS_A".to_owned(), "x".to_owned())], ..Sources::default() },
    ];
    for sources in sources {
        let refusal = sources.load().expect_err("refused").to_string();
        assert!(
            refusal.contains("[users] of the configuration file alone") && !refusal.contains("=x"),
            "{refusal}"
        );
    }
    assert!(refusal("users = \"x\"").contains("is a table"));
    let line = format!("alice = \"{VERIFIER}\"\n");
    assert!(
        refusal(&format!("[users]\n\"\u{e9}\" = \"{VERIFIER}\"\n\"e\u{301}\" = \"{VERIFIER}\""))
            .contains("already")
    );
    assert!(refusal(&format!("[users]\n{line}\"a\\u0007\" = \"{VERIFIER}\"")).contains("RFC 4013"));
}

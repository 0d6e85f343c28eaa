//! A run as one page for a browser: everything in it, nothing from elsewhere.
//!
//! The data stands in the page as JSON with every `<` written as `\u003c`, so that no text of a scenario or a broker can
//! end the element it stands in; the script puts text into the page as text only, and the page forbids itself to
//! load anything.

use crate::claim::Claim;
use crate::outcome::{Outcome, Violation};
use crate::recording::{Entry, What};
use crate::scenario::Scenario;
use crate::words;
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

const PAGE: &str = include_str!("page/page.html");
const SCRIPTS: [&str; 4] = [
    include_str!("page/model.js"),
    include_str!("page/diagram.js"),
    include_str!("page/panel.js"),
    include_str!("page/page.js"),
];
const STYLE: &str = include_str!("page/page.css");

/// More entries than this no page shows: it keeps the beginning and, above all, the end.
const ENTRIES_MAX: usize = 200_000;
/// So many of them are the beginning.
const BEGINNING: usize = 20_000;

/// What a page shows.
pub struct Page<'a> {
    /// What was run.
    pub subject: Subject,
    /// What came of it, with its entries.
    pub outcome: &'a Outcome,
    /// The command that runs it again.
    pub command: &'a str,
}

/// A scenario as a page tells it.
pub struct Subject {
    /// Why there is this scenario; may be empty.
    pub why: String,
    /// What is not said in it follows from this.
    pub seed: u64,
    /// The clients' names, by their index.
    pub clients: Vec<String>,
    /// What they do and what goes wrong, in the order of time.
    pub steps: Vec<String>,
    /// The faults as JSON, by their index.
    pub faults: Value,
    /// Of what a promise was broken, if one was.
    pub object: Option<String>,
}

impl Subject {
    /// A scenario, and what its run broke.
    pub fn of(scenario: &Scenario, violation: Option<&Violation>) -> Subject {
        Subject {
            why: scenario.why.trim().to_owned(),
            seed: scenario.seed,
            clients: scenario.clients.iter().map(|client| client.id.clone()).collect(),
            steps: words::steps(scenario),
            faults: json!(scenario.faults),
            object: violation.map(|violation| Claim::of(violation, scenario).object),
        }
    }
}

/// The part of a run that a page shows, in simulated microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from_us: u64,
    to_us: u64,
}

impl Default for Window {
    fn default() -> Self {
        Window { from_us: 0, to_us: u64::MAX }
    }
}

impl Window {
    /// Whether a run of so many microseconds has a part in it.
    pub fn touches(&self, run_us: u64) -> bool {
        self.from_us <= run_us
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", self.from_us as f64 / 1e6)?;
        if self.to_us == u64::MAX { Ok(()) } else { write!(f, "{}", self.to_us as f64 / 1e6) }
    }
}

impl FromStr for Window {
    type Err = String;

    /// Reads `FROM..TO` in seconds; either may be left out.
    fn from_str(text: &str) -> Result<Window, String> {
        let (from, to) = text.split_once("..").ok_or("a window is FROM..TO in seconds, as in 1.5..3")?;
        let micros = |seconds: &str, otherwise: u64| match seconds.trim() {
            "" => Ok(otherwise),
            seconds => match seconds.parse::<f64>() {
                Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok((seconds * 1e6).round() as u64),
                _ => Err(format!("{seconds:?} is no number of seconds")),
            },
        };
        let window = Window { from_us: micros(from, 0)?, to_us: micros(to, u64::MAX)? };
        if window.from_us >= window.to_us { Err("the window is empty".to_owned()) } else { Ok(window) }
    }
}

impl Page<'_> {
    /// The page as HTML.
    pub fn render(&self, window: Window) -> String {
        let data = self.data(window).to_string().replace('<', "\\u003c");
        // The data comes last: nothing in it is taken for a place to fill.
        let before = PAGE.replace("/* STYLE */", STYLE).replace("/* SCRIPT */", &SCRIPTS.concat());
        before.replacen("/* DATA */", &data, 1)
    }

    fn data(&self, window: Window) -> Value {
        let (subject, outcome) = (&self.subject, self.outcome);
        let violation = outcome.violation.as_ref().map(|violation| {
            json!({
                "checker": violation.checker,
                "meaning": violation.checker.meaning(),
                "object": subject.object,
                "text": violation.text,
                "at_us": violation.at_us,
            })
        });
        let (entries, note) = self.shown(window);
        json!({
            "why": subject.why,
            "seed": subject.seed.to_string(),
            "command": self.command,
            "violation": violation,
            "counts": outcome.counts,
            "hash": format!("{:016x}", outcome.trace_hash),
            "clients": subject.clients,
            "steps": subject.steps,
            "faults": subject.faults,
            "note": note,
            "entries": entries,
        })
    }

    /// The entries that the page shows, and what it has to say about those it does not.
    fn shown(&self, window: Window) -> (Vec<Entry>, Option<String>) {
        let all = &self.outcome.entries;
        let in_window: Vec<usize> = (0..all.len())
            .filter(|index| (window.from_us..=window.to_us).contains(&all[*index].at_us))
            .collect();
        let cut = in_window.len().saturating_sub(ENTRIES_MAX);
        let kept: Vec<usize> = match cut {
            0 => in_window,
            _ => [&in_window[..BEGINNING], &in_window[BEGINNING + cut..]].concat(),
        };
        let entries = kept.iter().map(|index| {
            let mut entry = all[*index].clone();
            if let What::Violation { culprit } = &mut entry.what {
                *culprit = culprit.and_then(|index| kept.binary_search(&index).ok());
            }
            entry
        });
        let note = (kept.len() < all.len()).then(|| {
            let seconds = |index: &usize| all[*index].at_us as f64 / 1e6;
            let gap = (cut > 0).then(|| {
                let (from, to) = (seconds(&kept[BEGINNING - 1]), seconds(&kept[BEGINNING]));
                format!(" Those between {from} s and {to} s are left out.")
            });
            format!(
                "{} of {} entries are shown.{} Choose others with --window FROM..TO.",
                kept.len(),
                all.len(),
                gap.unwrap_or_default()
            )
        });
        (entries.collect(), note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use crate::{run, run_recorded};

    /// A run that fails whatever the broker does: nothing comes to its end within a microsecond.
    fn hostile() -> Scenario {
        let text = r#"
            why = "</script><b>why</b>"
            seed = 1
            fault_phase_us = 100_000
            heal_us = 1
            [[clients]]
            id = "pump</script><b>"
            operations = [
                { at_us = 1_000, do = "subscribe", filter = "</script><b>", qos = 2 },
                { at_us = 20_000, do = "publish", topic = "</script><b>", qos = 2 },
            ]
            [[faults]]
            kind = "power_cut"
            when = { at_us = 30_000 }
            down_us = 1000
        "#;
        scenario::parse(text).expect("it is one")
    }

    fn page(window: Window) -> String {
        let scenario = hostile();
        let outcome = run_recorded(&scenario);
        let command = "vowmq-sim replay 1 --trace";
        let subject = Subject::of(&scenario, outcome.violation.as_ref());
        Page { subject, outcome: &outcome, command }.render(window)
    }

    fn data(page: &str) -> Value {
        let (_, after) = page.split_once("id=\"data\">").expect("the page has its data");
        let (data, _) = after.split_once("</script>").expect("which end");
        serde_json::from_str(data).expect("and are JSON")
    }

    /// Were it to fail, the page would not say what was broken, or a topic could end its script.
    #[test]
    fn it_says_what_was_broken_and_hostile_text_stays_text() {
        let page = page(Window::default());
        let data = data(&page);
        let entries = data["entries"].as_array().expect("entries");
        let last = entries.iter().rfind(|entry| entry["kind"] == "violation").expect("it is there");
        assert_eq!((&data["violation"]["checker"], &last["kind"]), (&json!("progress"), &json!("violation")));
        assert_eq!(data["violation"]["meaning"], "Something did not come to an end in time.");
        assert_eq!(
            (&data["why"], &data["clients"][0]),
            (&json!("</script><b>why</b>"), &json!("pump</script><b>"))
        );
        for element in ["script", "style", "html", "head", "body"] {
            let (opened, closed) = (format!("<{element}"), format!("</{element}>"));
            let count = |what: &str| {
                page.matches(what).count() - usize::from(what == "<head") * page.matches("<header").count()
            };
            assert_eq!(count(&opened), count(&closed), "{element}");
        }
        assert!(!page.contains("<b>"));
    }

    /// Were it to fail, the page would be empty in a CI artifact, or tell somebody that it is read.
    #[test]
    fn it_needs_nothing_from_elsewhere() {
        let page = page(Window::default());
        for reference in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "import("] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    /// Were it to fail, the page would show another run than the one that failed.
    #[test]
    fn recording_changes_nothing() {
        for scenario in (0..8).map(crate::generate).chain([hostile()]) {
            let (plain, recorded) = (run(&scenario), run_recorded(&scenario));
            assert_eq!((plain.trace_hash, plain.counts), (recorded.trace_hash, recorded.counts));
            assert!(plain.entries.is_empty() && !recorded.entries.is_empty());
        }
    }

    /// Were it to fail, nobody could follow a message from its PUBLISH to its record, its answer and its delivery.
    #[test]
    fn a_message_has_one_name_everywhere() {
        let data = data(&page(Window::default()));
        let entries = data["entries"].as_array().expect("entries").iter();
        let about: Vec<&Value> = entries
            .filter(|entry| entry["about"].as_array().is_some_and(|about| about.contains(&json!("m0.0"))))
            .collect();
        let has = |begin: &str| {
            about.iter().any(|entry| entry["text"].as_str().is_some_and(|text| text.starts_with(begin)))
        };
        for begin in ["PUBLISH 1 m0.0", "write and sync record", "PUBREC 1", "PUBREL 1", "PUBCOMP 1"] {
            assert!(has(begin), "{begin}: {about:#?}");
        }
        let arrived = about.iter().filter(|entry| entry["kind"] == "flight" && entry["fate"] == "done");
        assert!(arrived.clone().count() >= 4);
        assert!(arrived.clone().all(|entry| entry["end_us"].as_u64() > entry["at_us"].as_u64()));
    }

    /// Were it to fail, a long run would be cut without a word.
    #[test]
    fn a_window_is_said_to_be_one() {
        let window: Window = "0.02..0.025".parse().expect("it is one");
        let data = data(&page(window));
        let entries = data["entries"].as_array().expect("entries");
        assert!(
            entries.iter().all(|entry| (20_000..=25_000).contains(&entry["at_us"].as_u64().expect("a time")))
        );
        assert!(data["note"].as_str().is_some_and(|note| note.contains("--window")));
        for wrong in ["3", "2..1", "a..b", "-1..2"] {
            assert!(wrong.parse::<Window>().is_err(), "{wrong}");
        }
    }
}

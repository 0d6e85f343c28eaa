//! Frames with their expected outcome: corpus/wire/amqp.
//!
//! A case is the beginning of a stream behind the protocol header, frame-max 4096. `reads` expects these methods, content
//! headers, bodies and heartbeats and no more; `violation` the rule that the last frame breaks, with its reply code.
//! `header` cases are the first bytes of a connection.

use bytes::Bytes;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use vowmq_core::amqp::wire::frame::{self, FrameKind, FrameMax, Framed};
use vowmq_core::amqp::wire::{ContentHeader, Method, ProtocolHeader, Rule, Violation};

fn cases() -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/wire/amqp");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("corpus/wire/amqp")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("a file"));
    texts.flat_map(|text| serde_json::from_str::<Vec<Json>>(&text).expect("valid JSON")).collect()
}

fn text<'a>(case: &'a Json, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_else(|| panic!("no {field:?} in {case}"))
}

fn from_hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits")).collect()
}

/// Reads frames to the end of `bytes`; each becomes a line.
fn read(mut bytes: Bytes) -> (Vec<String>, Option<Violation>) {
    let mut lines = Vec::new();
    loop {
        let line = frame::cut(&mut bytes, FrameMax::MIN).and_then(|framed| match framed {
            Framed::Partial { .. } if bytes.is_empty() => Ok(None),
            Framed::Partial { needs } => Ok(Some(format!("partial, needs {needs}"))),
            Framed::Whole(frame) => Ok(Some(match frame.kind {
                FrameKind::Method => Method::decode(&frame)?.id().to_string(),
                FrameKind::Header => {
                    format!("header of {} bytes", ContentHeader::decode(frame.payload)?.body_size)
                }
                FrameKind::Body => format!("body of {} bytes", frame.payload.len()),
                FrameKind::Heartbeat => "heartbeat".into(),
            })),
        });
        match line {
            Ok(None) => return (lines, None),
            Ok(Some(line)) if line.starts_with("partial") => {
                lines.push(line);
                return (lines, None);
            }
            Ok(Some(line)) => lines.push(line),
            Err(violation) => return (lines, Some(violation)),
        }
    }
}

#[test]
fn every_frame_of_the_corpus_has_its_outcome() {
    // Broken: malformed input is accepted, valid input refused, or refused for another reason than the one told.
    let cases = cases();
    assert!(cases.len() >= 60, "{} cases were found", cases.len());
    for case in &cases {
        let title = format!("{:?} ({}) {}", text(case, "name"), text(case, "why"), text(case, "clause"));
        let bytes = from_hex(text(case, "hex"));
        let expect = &case["expect"];
        if let Some(header) = expect["header"].as_str() {
            assert_eq!(format!("{:?}", ProtocolHeader::check(&bytes)), header, "{title}");
            continue;
        }
        let (lines, violation) = read(bytes.into());
        match expect["violation"].as_str() {
            Some(rule) => {
                let violation = violation.unwrap_or_else(|| panic!("{title}: accepted as {lines:?}"));
                assert_eq!(violation.rule.name(), rule, "{title}");
                assert_eq!(violation.rule.clause(), text(case, "clause"), "{title}");
                let reply = violation.reply_text().to_string();
                assert_eq!(Some(reply.as_str()), expect["text"].as_str(), "{title}");
            }
            None => {
                assert_eq!(violation, None, "{title}");
                let reads = expect["reads"].as_array().expect("what it reads");
                assert!(
                    lines.iter().eq(reads.iter().map(|line| line.as_str().expect("a line"))),
                    "{title}: {lines:?}"
                );
            }
        }
    }
}

#[test]
fn every_rule_has_a_frame_that_breaks_it() {
    // Broken: a rule that no frame of the corpus breaks may never be enforced.
    let broken: BTreeSet<String> =
        cases().iter().filter_map(|case| Some(case["expect"]["violation"].as_str()?.to_owned())).collect();
    for rule in Rule::ALL {
        assert!(broken.contains(rule.name()), "no case breaks {rule:?}");
    }
}

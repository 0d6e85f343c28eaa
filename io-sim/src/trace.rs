//! What happened in a run: always as a hash, as readable lines and as typed entries only when asked for.

use crate::recording::Recording;
use std::fmt::Write;

/// How much of a run is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// A hash.
    Hash,
    /// And readable lines.
    Lines,
    /// And typed entries.
    Entries,
}

/// The trace of a run.
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
    recording: Option<Box<Recording>>,
    now_us: u64,
}

impl Trace {
    pub(crate) fn new(readable: bool) -> Trace {
        Trace { hash: 0x76_6f77_6d71, lines: readable.then(Vec::new), recording: None, now_us: 0 }
    }

    /// From now on typed entries are kept too, of a run with these clients; goes with a readable trace.
    pub(crate) fn keep_entries(&mut self, clients: Vec<String>) {
        self.recording = Some(Box::new(Recording::new(clients)));
    }

    pub(crate) fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// Notes that something happened: `who` is eight characters at the most, `numbers` go into the hash, the
    /// text only into a readable trace and a recording.
    pub(crate) fn note(&mut self, who: &str, numbers: &[u64], text: impl FnOnce() -> String) {
        if let Some(text) = self.line(who, numbers, text) {
            self.record(|recording| recording.note(who, numbers.first().copied(), text));
        }
    }

    /// As `note`, of something that is recorded otherwise. Tells the text if it was asked for.
    pub(crate) fn line(
        &mut self,
        who: &str,
        numbers: &[u64],
        text: impl FnOnce() -> String,
    ) -> Option<String> {
        self.mix(self.now_us);
        for number in numbers {
            self.mix(*number);
        }
        let lines = self.lines.as_mut()?;
        let text = text();
        let mut line = String::new();
        let _ = write!(line, "{:>6}.{:06}  {who:<12} ", self.now_us / 1_000_000, self.now_us % 1_000_000);
        line.push_str(&text);
        lines.push(line);
        Some(text)
    }

    /// Records something, if that is asked for.
    pub(crate) fn record(&mut self, act: impl FnOnce(&mut Recording)) {
        if let Some(recording) = &mut self.recording {
            recording.set_now(self.now_us);
            act(recording);
        }
    }

    /// Takes bytes into the hash.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(u64::from_le_bytes(word.try_into().expect("chunks of eight")));
        }
        let mut last = [0; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ bytes.len() as u64);
    }

    /// The entries, if they were asked for.
    pub(crate) fn take_recording(&mut self) -> Option<Box<Recording>> {
        self.recording.take()
    }

    /// The hash and the lines so far, which are taken out.
    pub(crate) fn so_far(&mut self) -> (u64, Vec<String>) {
        (self.hash, self.lines.as_mut().map(std::mem::take).unwrap_or_default())
    }

    fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

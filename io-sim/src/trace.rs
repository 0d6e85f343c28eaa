//! What happened in a run: always as a hash, as readable lines only when asked for.

use std::fmt::Write;

/// The trace of a run.
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
    now_us: u64,
}

impl Trace {
    pub(crate) fn new(readable: bool) -> Trace {
        Trace { hash: 0x76_6f77_6d71, lines: readable.then(Vec::new), now_us: 0 }
    }

    pub(crate) fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// Notes that something happened: `who` is eight characters at the most, `numbers` go into the hash, the
    /// text only into a readable trace.
    pub(crate) fn note(&mut self, who: &str, numbers: &[u64], text: impl FnOnce() -> String) {
        self.mix(self.now_us);
        for number in numbers {
            self.mix(*number);
        }
        if let Some(lines) = &mut self.lines {
            let mut line = String::new();
            let _ = write!(line, "{:>6}.{:06}  {who:<12} ", self.now_us / 1_000_000, self.now_us % 1_000_000);
            line.push_str(&text());
            lines.push(line);
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

    pub(crate) fn finish(self) -> (u64, Vec<String>) {
        (self.hash, self.lines.unwrap_or_default())
    }

    fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

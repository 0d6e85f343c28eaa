//! The wall clock, which may run fast or slow and jump.

/// The wall clock when a run begins, in milliseconds since 1970.
const START_MS: i64 = 1_700_000_000_000;

/// A wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    /// How much faster than the monotonic clock it runs, in millionths.
    ppm: i32,
    /// The sum of its jumps.
    jumped_ms: i64,
}

impl WallClock {
    pub(crate) fn new(ppm: i32) -> WallClock {
        WallClock { ppm, jumped_ms: 0 }
    }

    /// It jumps, forward or back.
    pub(crate) fn jump(&mut self, by_ms: i64) {
        self.jumped_ms = self.jumped_ms.saturating_add(by_ms);
    }

    /// Milliseconds since 1970, when the monotonic clock shows this.
    pub(crate) fn at(self, now_us: u64) -> i64 {
        let skew_us = i128::from(now_us) * i128::from(self.ppm) / 1_000_000;
        let passed_ms = (i128::from(now_us) + skew_us) / 1000;
        START_MS.saturating_add(passed_ms as i64).saturating_add(self.jumped_ms)
    }
}

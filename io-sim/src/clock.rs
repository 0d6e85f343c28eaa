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

/// All that the wall clock has shown.
#[derive(Clone, Debug)]
pub(crate) struct WallHistory {
    clock: WallClock,
    /// When it jumped, and what it showed right before and right after.
    jumps: Vec<(u64, i64, i64)>,
    ppm: i32,
}

impl WallHistory {
    pub(crate) fn new(ppm: i32) -> WallHistory {
        WallHistory { clock: WallClock::new(ppm), jumps: Vec::new(), ppm }
    }

    /// It jumps, forward or back.
    pub(crate) fn jump(&mut self, now_us: u64, by_ms: i64) {
        let before = self.clock.at(now_us);
        self.clock.jump(by_ms);
        self.jumps.push((now_us, before, self.clock.at(now_us)));
    }

    /// What it shows now.
    pub(crate) fn now(&self, now_us: u64) -> i64 {
        self.clock.at(now_us)
    }

    /// The least that it has shown between these times.
    pub(crate) fn least(&self, from_us: u64, until_us: u64) -> i64 {
        let after = self.within(from_us, until_us).map(|(_, before, after)| *before.min(after));
        after.fold(self.at(from_us), i64::min)
    }

    /// The most that it has shown between these times.
    pub(crate) fn most(&self, from_us: u64, until_us: u64) -> i64 {
        let shown = self.within(from_us, until_us).map(|(_, before, after)| *before.max(after));
        shown.fold(self.at(until_us), i64::max)
    }

    fn within(&self, from_us: u64, until_us: u64) -> impl Iterator<Item = &(u64, i64, i64)> {
        self.jumps.iter().filter(move |(at, ..)| (from_us..=until_us).contains(at))
    }

    fn at(&self, time_us: u64) -> i64 {
        let mut clock = WallClock::new(self.ppm);
        let passed = self.jumps.iter().take_while(|(at, ..)| *at <= time_us);
        clock.jump(passed.map(|(_, before, after)| after - before).sum());
        clock.at(time_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, nobody could say what may have expired.
    #[test]
    fn the_least_and_the_most_are_over_all_jumps_between() {
        let mut wall = WallHistory::new(0);
        wall.jump(1_000_000, -500);
        wall.jump(2_000_000, 10_000);
        let shown = |ms: i64| START_MS + ms;
        assert_eq!(wall.now(3_000_000), shown(12_500));
        assert_eq!((wall.least(0, 900_000), wall.most(0, 900_000)), (shown(0), shown(900)));
        assert_eq!(
            (wall.least(900_000, 1_100_000), wall.most(900_000, 1_100_000)),
            (shown(500), shown(1000))
        );
        assert_eq!((wall.least(1_500_000, 3_000_000), wall.most(0, 3_000_000)), (shown(1000), shown(12_500)));
    }
}

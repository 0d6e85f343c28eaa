//! The two clocks of the machine, read for the core, which has none.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use vowmq_core::time::{Monotonic, Now, WallTime};

/// Both clocks. The monotonic one is tokio's, so that a simulated network may stand still or hurry.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose monotonic time starts now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// Both clocks at this moment.
    pub fn now(&self) -> Now {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now {
            monotonic: Monotonic(self.origin.elapsed().as_micros() as u64),
            wall: WallTime(since_1970.as_millis() as u64),
        }
    }

    /// The moment of tokio's timers at which the core's clock shows `at`. A moment too far away to express is
    /// a day from now; whoever waits for it looks again.
    pub fn instant(&self, at: Monotonic) -> Instant {
        let far = Instant::now() + Duration::from_secs(24 * 3600);
        self.origin.checked_add(Duration::from_micros(at.0)).map_or(far, |instant| instant.min(far))
    }
}

//! The two clocks of the machine, read for the core, which has none.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use vowmq_core::time::{Monotonic, Now, WallTime};

/// Both clocks. The monotonic one is tokio's, so that a simulated network may stand still or hurry.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    wall: Wall,
}

/// Where the wall time comes from.
#[derive(Clone, Copy, Debug)]
enum Wall {
    /// The system.
    System,
    /// It was this at the origin, and has gone on with the monotonic time.
    Since(WallTime),
}

impl Clock {
    /// A clock whose monotonic time starts now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now(), wall: Wall::System }
    }

    /// A clock whose monotonic time starts now and whose wall time is `wall` now. It never looks at the system's
    /// clock: with a simulated network, all of its time is simulated.
    pub fn start_at(wall: WallTime) -> Clock {
        Clock { origin: Instant::now(), wall: Wall::Since(wall) }
    }

    /// Both clocks at this moment.
    pub fn now(&self) -> Now {
        let elapsed = self.origin.elapsed();
        let wall = match self.wall {
            Wall::System => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
                WallTime(since_1970.as_millis() as u64)
            }
            Wall::Since(wall) => wall.plus_ms(elapsed.as_millis() as u64),
        };
        Now { monotonic: Monotonic(elapsed.as_micros() as u64), wall }
    }

    /// The moment of tokio's timers at which the core's clock shows `at`. A moment too far away to express is
    /// a day from now; whoever waits for it looks again.
    pub fn instant(&self, at: Monotonic) -> Instant {
        let far = Instant::now() + Duration::from_secs(24 * 3600);
        self.origin.checked_add(Duration::from_micros(at.0)).map_or(far, |instant| instant.min(far))
    }
}

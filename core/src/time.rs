//! The two clocks. The core reads neither: every input carries both.

/// Microseconds since an arbitrary moment of this run; never goes back. Timers use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Monotonic(pub u64);

/// Milliseconds since 1970-01-01 UTC, as the machine believes; may jump either way. Only what outlives the
/// process (stored expiries, timestamps in records) uses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct WallTime(pub u64);

/// Both clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Now {
    /// For timers.
    pub monotonic: Monotonic,
    /// For what is stored.
    pub wall: WallTime,
}

impl Monotonic {
    /// This moment and `micros` microseconds.
    pub fn plus_us(self, micros: u64) -> Monotonic {
        Monotonic(self.0.saturating_add(micros))
    }

    /// This moment and `millis` milliseconds.
    pub fn plus_ms(self, millis: u64) -> Monotonic {
        self.plus_us(millis.saturating_mul(1000))
    }
}

impl WallTime {
    /// This moment and `millis` milliseconds.
    pub fn plus_ms(self, millis: u64) -> WallTime {
        WallTime(self.0.saturating_add(millis))
    }

    /// Milliseconds from `now` until this moment; 0 when it has passed.
    pub fn ms_after(self, now: WallTime) -> u64 {
        self.0.saturating_sub(now.0)
    }
}

/// When the core wants to be called with `DeadlineReached`, and for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// At this moment or as soon after it as the driver can.
    pub at: Monotonic,
    /// The reason, for traces.
    pub why: Why,
}

/// What a deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Why {
    /// Work that was cut into pieces goes on; always due at once.
    Work,
    /// Records wait to be written.
    Flush,
    /// The last batch has no witness yet (an idle broker writes one).
    Witness,
    /// A connection has not completed its handshake.
    Handshake,
    /// A client's keep-alive.
    KeepAlive,
    /// A stored expiry by the wall clock.
    Expiry,
    /// A full disk is looked at again.
    Space,
    /// A message that could not be read is read again.
    Retry,
    /// Space may be won again.
    Upkeep,
}

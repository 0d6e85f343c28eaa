//! What a client's subscription may be at the broker, as far as the client can know.
//!
//! Between SUBSCRIBE and SUBACK it may be the old or the new one; after SUBACK it is the new one; after an
//! UNSUBSCRIBE without UNSUBACK it may be gone. Only what is certain is owed a message; whatever was possible
//! since a message was published may explain its delivery.

/// No subscription is among the possibilities (bits 0 to 2: one with that QoS is).
const NONE: u8 = 1 << 3;

/// The possibilities over time.
#[derive(Clone, Default)]
pub(crate) struct Subscription {
    /// From this time on, these were possible.
    history: Vec<(u64, u8)>,
    /// What the last acknowledgement made certain, or everything that was possible before.
    base: u8,
    /// Requests without acknowledgement, by their tickets: the QoS asked for, or none to unsubscribe.
    pending: Vec<(u64, Option<u8>)>,
    certain: Option<Certain>,
}

/// A subscription that was acknowledged and not touched since.
#[derive(Clone, Copy)]
struct Certain {
    since_us: u64,
    qos_min: u8,
}

impl Subscription {
    /// A SUBSCRIBE, or an UNSUBSCRIBE without QoS, was sent.
    pub(crate) fn sent(&mut self, now: u64, ticket: u64, qos: Option<u8>) {
        self.pending.push((ticket, qos));
        self.certain = match (self.certain, qos) {
            (Some(certain), Some(qos)) => Some(Certain { qos_min: certain.qos_min.min(qos), ..certain }),
            (_, _) => None,
        };
        self.note(now);
    }

    /// It was acknowledged: what was sent before it does not count any more, what was sent after it may.
    pub(crate) fn acked(&mut self, now: u64, ticket: u64, granted: Option<u8>) {
        self.pending.retain(|(later, _)| *later > ticket);
        self.base = granted.map_or(NONE, |qos| 1 << qos);
        let qos_min =
            self.pending.iter().fold(granted, |least, (_, qos)| least.zip(*qos).map(|(a, b)| a.min(b)));
        self.certain = match (self.certain, qos_min) {
            (Some(certain), Some(qos_min)) if certain.qos_min == qos_min => Some(certain),
            (_, Some(qos_min)) => Some(Certain { since_us: now, qos_min }),
            (_, None) => None,
        };
        self.note(now);
    }

    /// It was refused: nothing changes.
    pub(crate) fn refused(&mut self, now: u64, ticket: u64) {
        self.pending.retain(|(other, _)| *other != ticket);
        self.note(now);
    }

    fn note(&mut self, now: u64) {
        let base = if self.base == 0 { NONE } else { self.base };
        let mask = |qos: &Option<u8>| qos.map_or(NONE, |qos| 1 << qos);
        self.history.push((now, self.pending.iter().fold(base, |possible, (_, qos)| possible | mask(qos))));
    }

    /// The session may have ended: nothing is owed any more.
    pub(crate) fn doubt(&mut self) {
        self.certain = None;
    }

    /// The least QoS granted, if it has been there for certain since then.
    pub(crate) fn certain_since(&self, since: u64) -> Option<u8> {
        self.certain.filter(|certain| certain.since_us <= since).map(|certain| certain.qos_min)
    }

    /// Whether it may ever have been there.
    pub(crate) fn was_ever_possible(&self) -> bool {
        self.history.iter().any(|(_, mask)| mask & !NONE != 0)
    }

    /// Bits of the QoS that may have been granted at some time since then.
    pub(crate) fn possible_since(&self, since: u64) -> u8 {
        let mut possible = 0;
        for (from, mask) in self.history.iter().rev() {
            possible |= mask;
            if *from <= since {
                break;
            }
        }
        possible & !NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, the checkers would cry wolf, or sleep.
    #[test]
    fn only_what_is_certain_is_owed_and_what_was_possible_explains() {
        let mut subscription = Subscription::default();
        subscription.sent(10, 1, Some(1));
        assert_eq!((subscription.certain_since(10), subscription.possible_since(10)), (None, 2));
        subscription.acked(20, 1, Some(1));
        assert_eq!((subscription.certain_since(15), subscription.certain_since(20)), (None, Some(1)));
        subscription.sent(30, 2, Some(0));
        assert_eq!((subscription.certain_since(25), subscription.possible_since(25)), (Some(0), 3));
        subscription.sent(40, 3, None);
        subscription.acked(45, 2, Some(0));
        assert_eq!((subscription.certain_since(60), subscription.possible_since(50)), (None, 1));
        subscription.acked(50, 3, None);
        assert_eq!((subscription.certain_since(60), subscription.possible_since(60)), (None, 0));
        assert_eq!(subscription.possible_since(47), 1);
    }
}

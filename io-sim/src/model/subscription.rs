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
    certain: Option<Certain>,
}

/// A subscription that was acknowledged and not touched since.
#[derive(Clone, Copy)]
struct Certain {
    since_us: u64,
    qos_min: u8,
}

impl Subscription {
    pub(crate) fn subscribe_sent(&mut self, now: u64, qos: u8) {
        self.history.push((now, self.possible() | 1 << qos));
        self.certain = self.certain.map(|certain| Certain { qos_min: certain.qos_min.min(qos), ..certain });
    }

    pub(crate) fn subscribe_acked(&mut self, now: u64, granted: u8) {
        self.history.push((now, 1 << granted));
        self.certain = match self.certain {
            Some(certain) if certain.qos_min == granted => Some(certain),
            Some(_) | None => Some(Certain { since_us: now, qos_min: granted }),
        };
    }

    pub(crate) fn unsubscribe_sent(&mut self, now: u64) {
        self.history.push((now, self.possible() | NONE));
        self.certain = None;
    }

    pub(crate) fn unsubscribe_acked(&mut self, now: u64) {
        self.history.push((now, NONE));
        self.certain = None;
    }

    /// The session may have ended: nothing is owed any more.
    pub(crate) fn doubt(&mut self) {
        self.certain = None;
    }

    /// The least QoS granted, if it has been there for certain since then.
    pub(crate) fn certain_since(&self, since: u64) -> Option<u8> {
        self.certain.filter(|certain| certain.since_us <= since).map(|certain| certain.qos_min)
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

    fn possible(&self) -> u8 {
        self.history.last().map_or(NONE, |(_, mask)| *mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, the checkers would cry wolf, or sleep.
    #[test]
    fn only_what_is_certain_is_owed_and_what_was_possible_explains() {
        let mut subscription = Subscription::default();
        subscription.subscribe_sent(10, 1);
        assert_eq!((subscription.certain_since(10), subscription.possible_since(10)), (None, 2));
        subscription.subscribe_acked(20, 1);
        assert_eq!((subscription.certain_since(15), subscription.certain_since(20)), (None, Some(1)));
        subscription.subscribe_sent(30, 0);
        assert_eq!((subscription.certain_since(25), subscription.possible_since(25)), (Some(0), 3));
        subscription.unsubscribe_sent(40);
        subscription.unsubscribe_acked(50);
        assert_eq!((subscription.certain_since(60), subscription.possible_since(60)), (None, 0));
        assert_eq!(subscription.possible_since(45), 3);
    }
}

//! What only sessions have in their records: subscriptions, how long they stay, wills.

use super::{Fields, put_message, put_number, put_numbers, put_optional_text};
use crate::durable::record::{SessionExpiry, Subscription, Will};
use crate::ids::{MessageId, QueuePosition, SessionId};
use crate::mqtt::packet::QoS;
use crate::queue::Delivery;
use crate::routing::retained::Progress;
use alloc::vec::Vec;

/// Whether nothing of the will needs more than MQTT 3 has.
pub(super) fn is_of_mqtt_3(will: &Will) -> bool {
    will.delay_s == 0 && will.expiry_s.is_none()
}

pub(super) fn put_subscription(out: &mut Vec<u8>, subscription: &Subscription, owes: bool) {
    let Subscription { qos, no_local, retain_as_published, identifier } = *subscription;
    let flags = [no_local, retain_as_published, !owes, identifier > 0];
    let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag));
    out.push(qos as u8 | flags << 2);
    if identifier > 0 {
        put_number(out, identifier.into());
    }
}

/// The identifiers of subscriptions.
pub(super) fn put_identifiers(out: &mut Vec<u8>, identifiers: &[u32]) {
    put_number(out, identifiers.len() as u64);
    identifiers.iter().for_each(|identifier| put_number(out, (*identifier).into()));
}

/// What a session is owed of the retained messages and gets now.
pub(super) fn put_retained_queued(
    out: &mut Vec<u8>,
    session: SessionId,
    entries: &[(QueuePosition, MessageId, Delivery)],
    progress: &Progress,
) {
    put_numbers(out, &[session.0, entries.len() as u64]);
    for (position, message, delivery) in entries {
        put_numbers(out, &[position.0, message.0]);
        out.push(delivery.to_byte());
    }
    put_optional_text(
        out,
        match progress {
            Progress::Done => None,
            Progress::After(topic) => Some(topic),
        },
    );
}

pub(super) fn put_expiry(out: &mut Vec<u8>, expiry: SessionExpiry) {
    put_number(
        out,
        match expiry {
            SessionExpiry::AsSet => 0,
            SessionExpiry::After(seconds) => u64::from(seconds) + 1,
            SessionExpiry::Never => u64::from(u32::MAX) + 1,
        },
    );
}

pub(super) fn put_will(out: &mut Vec<u8>, will: &Will) {
    out.push(will.retain.into());
    if !is_of_mqtt_3(will) {
        put_numbers(out, &[will.delay_s.into(), will.expiry_s.map_or(0, |seconds| u64::from(seconds) + 1)]);
    }
    put_message(out, &will.content);
}

impl Fields<'_> {
    pub(super) fn identifier(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn subscription(&mut self) -> Option<(Subscription, bool)> {
        let byte = self.byte().filter(|byte| *byte < 64)?;
        let qos = QoS::from_bits(byte & 0x03)?;
        let [no_local, retain_as_published, owes_nothing, identified] =
            [2, 3, 4, 5].map(|bit| byte & (1 << bit) != 0);
        let identifier = match identified {
            true => u32::try_from(self.number()?).ok().filter(|number| *number > 0)?,
            false => 0,
        };
        Some((Subscription { qos, no_local, retain_as_published, identifier }, !owes_nothing))
    }

    pub(super) fn expiry(&mut self) -> Option<SessionExpiry> {
        Some(match self.number()? {
            0 => SessionExpiry::AsSet,
            more => SessionExpiry::of_interval(u32::try_from(more - 1).ok()?),
        })
    }

    pub(super) fn will(&mut self, of_mqtt_5: bool) -> Option<Will> {
        let retain = self.flag()?;
        let (mut delay_s, mut expiry_s) = (0, None);
        if of_mqtt_5 {
            delay_s = u32::try_from(self.number()?).ok()?;
            expiry_s = match self.number()? {
                0 => None,
                more => Some(u32::try_from(more - 1).ok()?),
            };
        }
        let content = self.message()?;
        self.span = None;
        Some(Will { content, retain, durable: true, delay_s, expiry_s })
    }
}

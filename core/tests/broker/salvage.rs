//! What salvage makes of a store when a piece of its checkpoint is damaged, each piece in turn.

use crate::support::disk::{Disk, SECTOR};
use crate::support::packets::{accepted, publish, retain, subscribe};
use crate::support::{Run, SEED, recover, settings};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use vowmq_core::Purpose;
use vowmq_core::durable::batch::{self, BATCH_HEADER};
use vowmq_core::durable::codec;
use vowmq_core::durable::salvage::{Loss, Salvage};
use vowmq_core::facts::Fact;
use vowmq_core::ids::SegmentNumber;
use vowmq_core::output::DiskRequest;

const MESSAGES: u16 = 400;

/// A durable session that is owed all messages, retained ones beside them, several checkpoints.
fn store() -> Disk {
    let mut run = Run::new();
    let (subscriber, _) = accepted(&mut run, "subscriber", false);
    subscribe(&mut run, subscriber, &[("m/#", 2), ("n/+", 1)]);
    run.break_off(subscriber);
    let (publisher, _) = accepted(&mut run, "publisher", true);
    for number in 1..=MESSAGES {
        publish(&mut run, publisher, "m/t", 1, number, &[b'x'; 700]);
        run.pass_ms(1);
    }
    for number in 1..=20 {
        retain(&mut run, publisher, &format!("r/{number}"), 1, number, &[b'r'; 700]);
        run.pass_ms(1);
    }
    assert!(run.broker.statistics().checkpoints > 3, "{:?}", run.broker.statistics());
    run.disk
}

/// The types of the pieces of a checkpoint, and of the record that completes it.
const PIECES: RangeInclusive<u8> = 17..=23;
const COMPLETION: RangeInclusive<u8> = 24..=24;

/// The records of these types: segment, offset, bytes.
fn records_of(types: &RangeInclusive<u8>, disk: &Disk) -> Vec<(SegmentNumber, usize, usize)> {
    let mut found = Vec::new();
    for (segment, file) in &disk.files {
        let mut offset = SECTOR;
        while offset < file.durable.len() {
            let Some(batch) = batch::parse(&file.durable[offset..]).filter(|b| b.header.segment == *segment)
            else {
                offset += SECTOR;
                continue;
            };
            let mut at = BATCH_HEADER;
            while let Some((kind, end)) = codec::peek(batch.bytes, at) {
                if types.contains(&kind) {
                    found.push((*segment, offset + at, end - at));
                }
                at = end;
            }
            offset += batch.padded() as usize;
        }
    }
    found
}

/// What the new store made of `disk` holds: queued, subscriptions, retained; and what was said to be missing.
fn salvaged(disk: &mut Disk) -> (usize, usize, usize, Vec<Loss>) {
    let mut old = |request: DiskRequest| disk.execute(&request);
    let left = Salvage::read(&mut old, SEED).expect("lists");
    let mut new = Disk::default();
    let now = Default::default();
    let mut write = |request: DiskRequest| new.execute(&request);
    let (_, losses) = left.copy(&mut old, &mut write, now, settings(), SEED).expect("there is room");
    let recovered = recover(&mut new, now, settings(), Purpose::Look);
    let broker = recovered.map_err(|refusal| refusal.to_string()).expect("the new store opens").broker;
    let facts = broker.facts();
    let count = |is: fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
    let positions: BTreeSet<_> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Queued { position, .. } => Some(*position),
            _ => None,
        })
        .collect();
    let queued = count(|fact| matches!(fact, Fact::Queued { .. }));
    assert_eq!(positions.len(), queued, "a position twice");
    let subscriptions = count(|fact| matches!(fact, Fact::Subscription { .. }));
    (queued, subscriptions, count(|fact| matches!(fact, Fact::Retained { .. })), losses)
}

#[test]
fn a_damaged_piece_of_a_checkpoint_costs_no_message_that_is_readable() {
    // Broken: one bad sector in a checkpoint, and a client's queue, its subscriptions or its session are gone.
    let mut whole = store();
    assert_eq!(salvaged(&mut whole), (MESSAGES.into(), 2, 20, Vec::new()));
    // Older checkpoints would do as well, so that there is only one.
    let mut completions = records_of(&COMPLETION, &whole);
    completions.pop();
    completions.into_iter().for_each(|record| damage(&mut whole, record));
    let mut put_back = [0; 3];
    for piece in records_of(&PIECES, &whole) {
        let mut disk = whole.clone();
        damage(&mut disk, piece);
        let (queued, subscriptions, retained, losses) = salvaged(&mut disk);
        for loss in &losses {
            match loss {
                Loss::EntriesPutBack { .. } => put_back[0] += 1,
                Loss::SubscriptionsPutBack { .. } => put_back[1] += 1,
                Loss::SessionPiecedTogether { .. } => put_back[2] += 1,
                _ => {}
            }
        }
        // The batch has records beside the piece, as many as came in one turn.
        let lost = usize::from(MESSAGES) - queued + 20 - retained;
        assert!(
            lost <= 8 && subscriptions == 2,
            "{piece:?}: {queued} queued, {subscriptions} subscriptions, {retained} retained: {losses:?}"
        );
        assert!(lost == 0 || !losses.is_empty(), "what is lost is told");
    }
    assert!(put_back.iter().all(|count| *count > 0), "no damage hit one kind of piece: {put_back:?}");
}

fn damage(disk: &mut Disk, (segment, offset, length): (SegmentNumber, usize, usize)) {
    let file = disk.files.get_mut(&segment).expect("it was just there");
    file.durable[offset + length - 1] ^= 1;
    file.written.clone_from(&file.durable);
}

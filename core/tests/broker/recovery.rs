//! The recovery table of DESIGN, row by row, and what recovery brings back.

use crate::support::disk::{Disk, File, Kind, SECTOR, Survival};
use crate::support::packets::*;
use crate::support::{Run, recover, settings};
use vowmq_core::durable::segment::{self, FirstSector};
use vowmq_core::facts::Fact;
use vowmq_core::ids::{Lsn, SegmentNumber};
use vowmq_core::output::{DiskRequest, Halt};
use vowmq_core::time::{Monotonic, Now, WallTime};
use vowmq_core::{Purpose, Refusal};

const NOW: Now = Now { monotonic: Monotonic(0), wall: WallTime(1_700_000_000_000) };

/// A store with `count` acknowledged messages for "sub", each in a batch of its own, and no witness of the last.
fn store_with(count: u16) -> Run {
    let mut run = Run::new();
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    run.send(subscriber, &DISCONNECT);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for id in 1..=count {
        publish(&mut run, publisher, "t", 1, id, format!("message {id}").as_bytes());
        assert_eq!(acknowledgements(&mut run, publisher), [(0x40, id)]);
    }
    run
}

fn queued(run: &mut Run) -> Vec<String> {
    let disk = &run.disk;
    let payload = |fact| match fact {
        Fact::Queued { content, place, .. } => {
            let content = content.unwrap_or_else(|| disk.message(place.expect("it is somewhere")));
            Some(String::from_utf8(content.body().to_vec()).expect("text"))
        }
        _ => None,
    };
    run.broker.facts().into_iter().filter_map(payload).collect()
}

fn messages_to(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("message {n}")).collect()
}

/// Offsets of the batches in the first segment.
fn batches(disk: &Disk) -> Vec<usize> {
    let file = &disk.files[&SegmentNumber(1)].durable;
    (1..file.len() / SECTOR).map(|n| n * SECTOR).filter(|&at| file[at..].starts_with(b"VMQB")).collect()
}

fn damage(run: &mut Run, at: usize) {
    let file = run.disk.files.get_mut(&SegmentNumber(1)).expect("the first segment");
    file.durable[at] ^= 0x40;
    file.written = file.durable.clone();
}

fn refusal(run: &mut Run) -> Refusal {
    let before = run.disk.files.keys().copied().collect::<Vec<_>>();
    let outcome = recover(&mut run.disk, NOW, settings(), Purpose::Serve);
    assert_eq!(run.disk.files.keys().copied().collect::<Vec<_>>(), before, "a refusal changes nothing");
    match outcome {
        Ok(recovered) => panic!("not refused: {:?}", recovered.report),
        Err(refusal) => refusal,
    }
}

#[test]
fn acknowledged_messages_survive_with_their_order() {
    // Broken: the promise.
    let mut run = store_with(5).power_cut(Survival::Nothing);
    assert_eq!(queued(&mut run), messages_to(5));
    let (subscriber, present) = accepted(&mut run, "sub", false);
    assert!(present);
    assert_eq!(payloads(&mut run, subscriber).len(), 5);
}

#[test]
fn next_segment_continues() {
    // Row 1. Broken: recovery stops at the end of a segment.
    let mut run = store_with(40);
    assert!(run.disk.files.len() > 3, "several segments are in use");
    run = run.power_cut(Survival::Nothing);
    assert_eq!(queued(&mut run), messages_to(40));
}

#[test]
fn damage_in_the_middle_is_refused_with_its_place() {
    // Row 2. Broken: damage is cut off like a torn tail, and what follows is silently lost.
    let mut run = store_with(5);
    let at = batches(&run.disk)[3];
    damage(&mut run, at + 100);
    let Refusal::Damaged { segment, offset, first, last, .. } = refusal(&mut run) else {
        panic!("the wrong refusal")
    };
    assert_eq!((segment, offset as usize), (SegmentNumber(1), at));
    assert!(first <= last && last < Lsn(20), "{first} to {last}");
    let text = refusal(&mut run).to_string();
    assert!(text.contains(&format!("segment 1 cannot be read at offset {at}")), "{text}");
}

#[test]
fn damage_to_every_batch_with_a_witness_is_refused() {
    // Row 2, everywhere: header and body of each batch, and the segment's header.
    let clean = store_with(6);
    let batches = batches(&clean.disk);
    for &at in &batches[..batches.len() - 1] {
        for byte in [0, 5, 8, 40, 48, 90] {
            let mut run = Run::on(clean.disk.clone(), NOW, settings());
            run.disk = clean.disk.clone();
            damage(&mut run, at + byte);
            assert!(matches!(refusal(&mut run), Refusal::Damaged { .. }), "batch at {at}, byte {byte}");
        }
    }
    let mut run = store_with(6);
    damage(&mut run, 20);
    assert!(matches!(refusal(&mut run), Refusal::Damaged { .. }), "the segment's header");
}

#[test]
fn a_missing_segment_is_refused() {
    // Row 2. Broken: a file that was lost takes its messages with it, silently.
    for lost in [1, 2] {
        let mut run = store_with(40);
        run.disk.files.remove(&SegmentNumber(lost));
        let refusal = refusal(&mut run);
        let says_so = matches!(refusal, Refusal::Damaged { .. } | Refusal::SegmentMissing { .. });
        assert!(says_so, "segment {lost}: {refusal}");
    }
}

#[test]
fn a_file_that_lost_its_end_is_refused() {
    // Row 2. Broken: a file that was cut short (by a copy, a tool, a file system) takes its messages with it.
    for kept in [SECTOR, 2 * SECTOR, 15 * SECTOR, 16 * SECTOR - 1] {
        let mut run = store_with(5);
        let file = run.disk.files.get_mut(&SegmentNumber(1)).expect("the first segment");
        file.written.truncate(kept);
        let refusal = refusal(&mut run);
        assert!(matches!(refusal, Refusal::Shortened { segment: SegmentNumber(1), .. }), "{kept}: {refusal}");
    }
}

#[test]
fn an_idle_broker_writes_a_witness_within_a_second() {
    // Broken: rot in the last batch looks like a torn write for ever.
    let mut run = store_with(3);
    run.pass_ms(1000);
    let batches = batches(&run.disk);
    let last_with_records = batches[batches.len() - 2];
    damage(&mut run, last_with_records + 100);
    assert!(matches!(refusal(&mut run), Refusal::Damaged { .. }));
    // And only one: an idle broker is idle.
    let mut run = store_with(3);
    run.pass_ms(1000);
    let syncs = run.broker.statistics().syncs;
    run.pass_ms(10_000);
    assert_eq!(run.broker.statistics().syncs, syncs);
}

/// A publish whose batch is written and not synced, of several sectors.
fn with_unsynced_batch() -> Run {
    let mut run = store_with(3);
    run.hold_disk = true;
    let (publisher, _) = accepted(&mut run, "pub2", true);
    publish(&mut run, publisher, "t", 1, 9, &[b'x'; 10_000]);
    let held = std::mem::take(&mut run.held);
    let writes = held.into_iter().filter_map(|(_, request)| match request {
        DiskRequest::Write { segment, offset, chunks, .. } => {
            Some(DiskRequest::Write { segment, offset, chunks, sync: false })
        }
        _ => None,
    });
    writes.collect::<Vec<_>>().iter().for_each(|write| drop(run.disk.execute(write)));
    assert_eq!(run.disk.unsynced().len(), 3);
    run
}

#[test]
fn torn_tail_is_sealed_by_a_new_segment() {
    // Row 3. Broken: something is written behind a tear, or what was torn is half believed.
    for bits in 0..7 {
        for survival in [Survival::Sectors(bits), Survival::Garbage(bits)] {
            let mut run = with_unsynced_batch().power_cut(survival);
            assert_eq!(queued(&mut run), messages_to(3), "{survival:?}");
            let newest = *run.disk.files.keys().next_back().expect("files");
            let torn = bits != 0 || survival != Survival::Sectors(0);
            assert_eq!(run.report.torn_tail.is_some(), torn, "{survival:?}: {:?}", run.report);
            assert!(newest > SegmentNumber(2));
            // It goes on, and the next recovery finds both.
            let (publisher, _) = accepted(&mut run, "pub3", true);
            publish(&mut run, publisher, "t", 1, 1, b"message 4");
            assert_eq!(acknowledgements(&mut run, publisher), [(0x40, 1)]);
            assert_eq!(queued(&mut run.power_cut(Survival::Nothing)), messages_to(4));
        }
    }
    let mut run = with_unsynced_batch().power_cut(Survival::Everything);
    assert_eq!(queued(&mut run).len(), 4, "whole, if not acknowledged: kept");
}

#[test]
fn a_batch_behind_a_cut_is_never_accepted_later() {
    // Broken: ghosts. A batch that survived behind a lost one fits, by its LSN, to what the next recovery expects.
    let mut settings = settings();
    settings.sync = vowmq_core::limits::SyncPolicy::Never;
    let mut disk = store_with(3).power_cut(Survival::Nothing).disk;
    disk.settings = Some(settings);
    let mut run = Run::on(disk, NOW, settings);
    let (publisher, _) = accepted(&mut run, "pub2", true);
    for id in 4..=6 {
        publish(&mut run, publisher, "t", 1, id, format!("lost {id}").as_bytes());
    }
    assert_eq!(run.disk.unsynced().len(), 3);
    for survivors in [0b110, 0b100, 0b010] {
        let mut disk = run.disk.clone();
        disk.power_cut(Survival::Sectors(survivors));
        let mut run = Run::on(disk, NOW, crate::support::settings());
        assert_eq!(queued(&mut run), messages_to(3));
        let (publisher, _) = accepted(&mut run, "pub3", true);
        publish(&mut run, publisher, "t", 1, 1, b"message 4");
        assert_eq!(acknowledgements(&mut run, publisher), [(0x40, 1)]);
        assert_eq!(queued(&mut run.power_cut(Survival::Nothing)), messages_to(4));
    }
}

#[test]
fn what_only_the_page_cache_has_is_synced_before_it_is_believed() {
    // Broken: the process dies, recovery accepts a batch from the page cache and builds on it, the power goes, and
    // the store is damaged by our own doing.
    let torn = with_unsynced_batch();
    let mut run = Run::on(torn.disk, NOW, settings());
    assert_eq!(queued(&mut run).len(), 4);
    let (publisher, _) = accepted(&mut run, "pub3", true);
    publish(&mut run, publisher, "t", 1, 1, b"message 5");
    assert_eq!(acknowledgements(&mut run, publisher), [(0x40, 1)]);
    assert_eq!(queued(&mut run.power_cut(Survival::Nothing)).len(), 5);
}

#[test]
fn a_read_error_is_not_an_end() {
    // Row 4. Broken: a sector that cannot be read now is taken for the end, and everything behind it is lost.
    let mut run = store_with(3);
    run.disk.fail_next = Some(Kind::Read);
    let text = refusal(&mut run).to_string();
    assert!(text.contains("the test says so"), "{text}");
}

#[test]
fn newer_format_other_store_and_unknown_records_are_refused_by_name() {
    // Row 5. Broken: a newer or foreign store is taken for an empty one.
    let mut run = store_with(1);
    let file = run.disk.files.get_mut(&SegmentNumber(1)).expect("the first segment");
    file.written[4] = 9;
    assert!(matches!(refusal(&mut run), Refusal::NewerFormat { format: 9, newest: 4, .. }));

    let mut run = store_with(1);
    let mut foreign = Disk::default();
    let other = vowmq_core::ids::Seed([9; 32]);
    let mut recovery = vowmq_core::Recovery::new(NOW, settings(), other, Purpose::Serve);
    while let Some(vowmq_core::output::Output::Disk { op, request }) = recovery.poll_output() {
        recovery.handle(NOW, op, foreign.execute(&request));
    }
    let mut bytes = foreign.files[&SegmentNumber(1)].written.clone();
    bytes[32] = 50; // its number, and the checksum to go with it
    let sum = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&bytes[12..96]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    let file = File { written: bytes.clone(), durable: bytes, entry: true, ..File::default() };
    run.disk.files.insert(SegmentNumber(50), file);
    assert!(matches!(refusal(&mut run), Refusal::OtherStore { segment: SegmentNumber(50), .. }));

    let mut run = store_with(2);
    let at = batches(&run.disk)[0];
    let file = run.disk.files.get_mut(&SegmentNumber(1)).expect("the first segment");
    let length = u32::from_le_bytes(file.written[at + 4..at + 8].try_into().expect("4 bytes")) as usize;
    file.written[at + 88] = 200;
    let sum = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&file.written[at + 12..at + length]);
    file.written[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
    let text = refusal(&mut run).to_string();
    assert!(text.contains("record 1 in segment 1") && text.contains("record type 200"), "{text}");
}

#[test]
fn a_crash_during_recovery_comes_to_the_same_outcome() {
    // Row 6. Broken: the second recovery finds what the first one left and makes something else of it.
    for operations in 0..40 {
        for survival in [Survival::Nothing, Survival::Everything, Survival::Sectors(1), Survival::Garbage(2)]
        {
            let mut disk = with_unsynced_batch().disk;
            disk.power_cut(Survival::Garbage(2));
            let mut recovery =
                vowmq_core::Recovery::new(NOW, settings(), crate::support::SEED, Purpose::Serve);
            for _ in 0..operations {
                let Some(vowmq_core::output::Output::Disk { op, request }) = recovery.poll_output() else {
                    break;
                };
                let result = disk.execute(&request);
                recovery.handle(NOW, op, result);
            }
            disk.power_cut(survival);
            let mut run = Run::on(disk, NOW, settings());
            assert_eq!(queued(&mut run), messages_to(3), "after {operations} operations, {survival:?}");
        }
    }
}

#[test]
fn zero_files_and_an_empty_directory_are_a_new_store() {
    // Broken: a crash at the very first start leaves a store that never starts again (B87).
    for length in [0, SECTOR, 64 * 1024] {
        let mut disk = Disk::default();
        let file =
            File { written: vec![0; length], durable: vec![0; length], entry: true, ..File::default() };
        disk.files.insert(SegmentNumber(1), file);
        let mut run = Run::on(disk, NOW, settings());
        let (_, present) = accepted(&mut run, "c", false);
        assert!(!present);
        let run = run.power_cut(Survival::Nothing);
        assert_eq!(run.report.sessions, 1, "length {length}");
    }
}

#[test]
fn looking_changes_nothing() {
    // Broken: `check` or `inspect` writes to the store that it was to look at.
    let mut run = store_with(3);
    let before: Vec<_> = run.disk.files.iter().map(|(n, file)| (*n, file.written.clone())).collect();
    run.disk.operations.clear();
    let recovered =
        recover(&mut run.disk, NOW, settings(), Purpose::Look).unwrap_or_else(|r| panic!("refused: {r}"));
    assert_eq!(recovered.report.messages, 3);
    let after: Vec<_> = run.disk.files.iter().map(|(n, file)| (*n, file.written.clone())).collect();
    assert_eq!(before, after);
    assert!(run.disk.operations.iter().all(|op| matches!(op, DiskRequest::List | DiskRequest::Read { .. })));
}

#[test]
fn unused_segments_go_and_their_space_comes_back() {
    // Broken: every restart keeps a prepared segment for ever.
    let mut run = store_with(1);
    for _ in 0..5 {
        run = run.power_cut(Survival::Nothing);
    }
    let unused = run.disk.files.iter().filter(|(number, file)| match segment::parse(&file.written) {
        FirstSector::Header(header) => header.segment != **number,
        FirstSector::NewerFormat(_) | FirstSector::Nothing => true,
    });
    assert_eq!(unused.count(), 1, "the one that is prepared now");
}

#[test]
fn a_failed_write_stops_the_broker_at_once() {
    // Broken: an acknowledgement after a failed sync; or the sync is tried again and "succeeds".
    let mut run = store_with(1);
    let (publisher, _) = accepted(&mut run, "pub2", true);
    run.disk.fail_next = Some(Kind::Write);
    let before = run.disk.operations.len();
    publish(&mut run, publisher, "t", 1, 9, b"never acknowledged");
    assert!(matches!(run.halt, Some(Halt::Storage { .. })));
    assert!(received(&mut run, publisher).is_empty());
    assert_eq!(run.disk.operations.len(), before + 1, "nothing is tried again");
    publish(&mut run, publisher, "t", 1, 10, b"nor this");
    run.pass_ms(10_000);
    assert!(received(&mut run, publisher).is_empty());
    let text = run.halt.take().expect("it stopped").to_string();
    assert!(text.contains("writing the log") && text.contains("the test says so"), "{text}");
}

#[test]
fn a_failed_directory_sync_stops_the_broker() {
    // Broken: a segment is used whose directory entry may be lost.
    let mut run = Run::new();
    run.disk.fail_next = Some(Kind::SyncDirectory);
    let (subscriber, _) = accepted(&mut run, "sub", false);
    subscribe(&mut run, subscriber, &[("t", 1)]);
    let (publisher, _) = accepted(&mut run, "pub", true);
    for id in 1..=30 {
        if run.halt.is_none() {
            publish(&mut run, publisher, "t", 1, id, &[0; 3000]);
        }
    }
    assert!(matches!(run.halt, Some(Halt::Storage { .. })), "{:?}", run.halt);
}

#[test]
fn a_store_without_anything_does_not_grow_with_every_start() {
    // Broken: a broker of clean sessions that is restarted again and again fills the disk with empty segments.
    let mut run = Run::new();
    for _ in 0..12 {
        run = run.power_cut(Survival::Nothing);
        run.pass_ms(2000);
    }
    assert!(run.disk.files.len() <= 5, "{:?}", run.disk.files.keys());
}

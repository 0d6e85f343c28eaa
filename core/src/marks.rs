//! Marks: places that a test campaign must come to, or it is a green test that lies.
//!
//! `reached!("name")` counts that a place was come to. Only the simulator counts (feature `marks`); in every other
//! build it is nothing. A name that is not in the list does not compile, and a name in the list that no place has
//! fails a test. The counts decide nothing: the core behaves the same with and without them.

#[cfg(feature = "marks")]
use core::sync::atomic::{AtomicU64, Ordering};

/// All marks: the name, and what it means that it was reached.
pub const MARKS: [(&str, &str); 98] = [
    ("batch gathers behind a write", "records came while a batch was on its way to the disk"),
    ("batch full", "a record went into a batch of its own because the one before was full"),
    ("lazy write", "records that nobody waits for were written after their time"),
    ("segment rolled", "the log went on in the next segment"),
    ("segment not ready", "a batch waited for a segment that was not prepared in time"),
    ("witness", "an idle broker wrote that its last batch is synced"),
    ("disk full", "no space for another segment"),
    ("disk has room", "space again after the disk was full"),
    ("disk failed", "a write or a sync failed and the broker stopped"),
    ("reply held", "a reply waited for a record"),
    ("reply behind a held one", "a reply that waits for nothing waited behind one that does"),
    ("delivery waits for the horizon", "a delivery waited until it was recorded that it may happen"),
    ("delivery waits for its record", "a QoS 2 delivery waited for the record of its enqueueing"),
    ("delivery waits for a drop", "a delivery waited for the record of a drop before it"),
    ("release waits", "a PUBREL on a new connection waited for the PUBREC's record"),
    ("redelivered", "a message was sent again on another connection"),
    ("window full", "a delivery waited for room in the in-flight window"),
    ("released ahead of a full window", "a client was told again to release what stood behind a full window"),
    ("reader slow", "a delivery waited until its connection had sent something"),
    ("QoS 0 dropped", "a QoS 0 message was dropped for a slow reader"),
    ("dropped oldest", "the oldest message went at the bound of a queue"),
    ("dropped newest", "all that stood in a full queue may have been sent, so the new message went"),
    ("refused at the bound", "a publisher was refused at the bound of a queue"),
    ("repeated publish", "a PUBLISH whose packet id is known was answered again"),
    ("publish parked", "a PUBLISH waited for room"),
    ("publish unparked", "a parked PUBLISH went on"),
    ("early PUBREC", "a PUBREC came before its PUBLISH was sent again"),
    ("repeated PUBREL", "a PUBREL for an id that was released was answered again"),
    ("session resumed", "a client came back to its session"),
    ("session replaced", "a clean start took the place of a durable session"),
    ("session expired", "a client stayed away too long"),
    ("taken over", "another connection went on with the session"),
    ("will published", "a connection ended without goodbye"),
    ("will void", "a goodbye made a will void"),
    ("will held", "a will waited for room"),
    ("will after a crash", "recovery published the will of a client that was connected"),
    ("retained in pieces", "retained messages owed to a subscription came in more than one piece"),
    ("parsing put off", "the rest of what came in had its turn after others"),
    ("fan-out goes on", "a QoS 0 message to many was gone on with in another turn"),
    ("login asked for", "a client had to wait until it was known who it is"),
    ("login refused", "a client could not prove who it is"),
    ("torn tail", "recovery cut off an unfinished write"),
    ("ghost", "recovery found a whole batch behind the end of the chain"),
    ("empty segment passed", "recovery went on in a segment behind one without records"),
    ("prepared segment used", "recovery went on in a segment that was prepared and never written to"),
    ("unused segment removed", "recovery removed a segment that was prepared and never written to"),
    ("checkpoint begun", "a checkpoint was begun"),
    ("images in pieces", "a checkpoint made some of its images, and others in another turn"),
    ("images made", "a checkpoint made all its images"),
    ("checkpoint complete", "a checkpoint was complete and recovery would find it"),
    ("segments freed", "a checkpoint left segments that nothing needs"),
    ("segment used again", "a segment that nothing needed became the next one"),
    ("segment removed", "a segment that nothing needed was removed"),
    ("compaction begun", "a segment was chosen whose messages move"),
    ("message moved", "a message was written again so that its segment can go"),
    ("compaction done", "all messages of a segment have moved"),
    ("message read back", "messages were read back from the disk"),
    ("message unreadable", "a message was wrong every time it was read"),
    ("delivery waits for a read", "a delivery waited for a message that was not in memory"),
    ("retained message waits for a read", "a retained message owed to a subscription was not in memory"),
    ("recovered from a checkpoint", "recovery began at a checkpoint"),
    ("checkpoint replayed", "recovery applied records that the images of a checkpoint may have already"),
    ("leftover segment", "recovery found a segment that the checkpoint does not need"),
    ("damage refused", "recovery refused because synced records are damaged"),
    ("topic alias given", "a topic went to its subscriber as the alias that it had been given"),
    ("group waits", "a group had a message, and no member had room for it"),
    ("lent to a clean member", "a message of a durable group went to a member whose session is clean"),
    ("back to its group", "what a member that went had not acknowledged came back to its group"),
    ("group turned durable", "a durable member joined a group that was not"),
    ("expired in a session's queue", "a message for a client of MQTT expired before it was sent"),
    ("retained message expired", "what a topic retained expired"),
    ("will waits", "a will waited until its delay was over, or its client back"),
    ("delayed will void", "a client was back before the delay of its will was over"),
    ("publish refused", "a queue at its bound refused what was published, and the publisher was told"),
    ("mandatory returned", "a mandatory message had nowhere to go and came back"),
    ("confirmed together", "one confirm stood for several publishes"),
    ("full queue passed by", "what nobody is told about went to other queues than the full one"),
    ("transaction committed", "a transaction took effect"),
    ("transaction rolled back", "a transaction was undone"),
    ("transaction refused", "a queue at its bound refused a whole transaction"),
    ("message dead-lettered", "a message went to its queue's dead letter exchange"),
    ("dead letter waits for a read", "a message that leaves its queue was not in memory"),
    ("message expired", "a message expired in a declared queue"),
    ("expiry waits for a read", "when a message expires had to be read"),
    ("beyond the queue's bound", "a message left a queue that was too long"),
    ("head dropped", "the head of a queue at its bound went for a new message"),
    ("delivered too often", "a message was given back more often than its queue allows"),
    ("message requeued", "a delivery came back to its place"),
    ("message got", "a message went to who asked for it"),
    ("nothing to get", "who asked for a message was told that there is none"),
    ("queue waits for a read", "a declared queue's next message was not in memory"),
    ("queue waits for the disk", "a declared queue's next delivery waited for a record"),
    ("delayed message routed", "a delayed message was routed when it was due"),
    ("delay waits for a read", "when a delayed message is due had to be read"),
    ("exclusive queue gone", "an exclusive queue went with its connection"),
    ("auto-delete queue gone", "an auto-delete queue went with its last consumer"),
    ("AMQP to a topic", "a message of AMQP went to the subscribers of a topic"),
    ("MQTT to a declared queue", "a message of MQTT went to a declared queue"),
];

/// From here on the marks are places that only clients of AMQP lead to.
pub const AMQP_MARKS: usize = index("publish refused");

/// The place of a mark in `MARKS`; does not compile for a name that is not there.
#[doc(hidden)]
pub const fn index(name: &str) -> usize {
    let mut at = 0;
    while at < MARKS.len() {
        if equal(MARKS[at].0.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no such mark")
}

const fn equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(feature = "marks")]
static COUNTS: [AtomicU64; MARKS.len()] = [const { AtomicU64::new(0) }; MARKS.len()];

/// Counts that a mark was reached.
#[doc(hidden)]
#[inline]
pub fn reach(index: usize) {
    #[cfg(feature = "marks")]
    COUNTS[index].fetch_add(1, Ordering::Relaxed);
    let _ = index;
}

/// How often each mark was reached in this process, in the order of `MARKS`.
#[cfg(feature = "marks")]
pub fn counts() -> [u64; MARKS.len()] {
    core::array::from_fn(|index| COUNTS[index].load(Ordering::Relaxed))
}

/// Counts that this place was come to.
macro_rules! reached {
    ($name:literal) => {
        $crate::marks::reach(const { $crate::marks::index($name) })
    };
}
pub(crate) use reached;

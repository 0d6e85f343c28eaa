//! What a run of AMQP clients does: queues, publishers, consumers, faults, all drawn from the seed.

use crate::chance::{Chance, Domain, Draws};
use crate::scenario::{BrokerSettings, DiskSettings};
use serde::{Deserialize, Serialize};

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What is not said here follows from this.
    pub seed: u64,
    /// The broker's settings.
    pub broker: BrokerSettings,
    /// The disk.
    pub disk: DiskSettings,
    /// Time on the way between client and broker.
    pub latency_us: (u64, u64),
    /// Sends whose bytes arrive in pieces, of a hundred.
    pub split_percent: u32,
    /// The queues that all clients declare; the last is where dead letters go.
    pub queues: Vec<QueuePlan>,
    /// Who publishes.
    pub publishers: Vec<PublisherPlan>,
    /// Who consumes.
    pub consumers: Vec<ConsumerPlan>,
    /// Who publishes by MQTT.
    pub sensors: Vec<SensorPlan>,
    /// Who subscribes by MQTT.
    pub listener: Option<ListenerPlan>,
    /// Who has a queue that does not last.
    pub lodgers: Vec<LodgerPlan>,
    /// What goes wrong.
    pub faults: Vec<FaultPlan>,
    /// From here on nothing goes wrong, and the queues are drained.
    pub fault_phase_us: u64,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuePlan {
    /// Its name.
    pub name: String,
    /// Whether it survives the broker.
    pub durable: bool,
    /// `x-max-length`.
    pub max_length: Option<u32>,
    /// `x-overflow` is reject-publish.
    pub refuses: bool,
    /// `x-message-ttl`, in milliseconds.
    pub ttl_ms: Option<u32>,
    /// What it gives up goes to the last queue.
    pub dead_letters: bool,
    /// `x-max-priority`; 0 is none.
    pub priorities: u8,
    /// `x-single-active-consumer`.
    pub single_active: bool,
    /// `x-delivery-limit`.
    pub delivery_limit: Option<u32>,
    /// Binding keys at the topic exchange.
    pub subjects: Vec<String>,
    /// Binding keys at the exchange where MQTT's messages come in.
    pub topics: Vec<String>,
    /// The binding at the headers exchange.
    pub mark: Option<MarkPlan>,
}

/// A binding at a headers exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkPlan {
    /// One of the headers is enough.
    pub any: bool,
    /// Headers and their values.
    pub marks: Vec<(String, i32)>,
}

impl Scenario {
    /// How many clients there are beside the one that drains the queues in the end.
    pub fn clients(&self) -> usize {
        let bridged = self.sensors.len() + usize::from(self.listener.is_some());
        self.publishers.len() + self.consumers.len() + self.lodgers.len() + bridged
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        let queues = self.queues.len();
        let clients = self.clients();
        let is_there = |fault: &FaultPlan| match fault.kind {
            FaultKind::Reset { client } => client < clients,
            FaultKind::PowerCut | FaultKind::Kill | FaultKind::Shutdown => true,
        };
        let publishes = |count, window, size| count > 0 && window > 0 && size > 0;
        let rules = [
            (queues > 1, "there must be a queue, and last the queue of dead letters"),
            (
                self.publishers.iter().all(|plan| plan.queue.is_none_or(|queue| queue + 1 < queues)),
                "a publisher's queue is not there, or that of dead letters",
            ),
            (self.consumers.iter().all(|plan| plan.queue < queues), "a consumer's queue is not there"),
            (
                self.consumers.iter().all(|plan| plan.may_forward(&self.queues)),
                "a consumer publishes to a queue that is not behind its own, or may refuse it, or without transactions",
            ),
            (
                self.publishers.iter().all(|plan| publishes(plan.count, plan.window, plan.size)),
                "a publisher has no messages, no window or no bytes to publish",
            ),
            (
                self.sensors.iter().all(|plan| publishes(plan.count, plan.window, plan.size)),
                "a sensor has no messages, no window or no bytes to publish",
            ),
            (self.faults.iter().all(is_there), "the client whose connection breaks is not there"),
        ];
        rules.iter().try_for_each(|(holds, rule)| if *holds { Ok(()) } else { Err((*rule).to_owned()) })
    }
}

impl QueuePlan {
    /// Whether messages may leave it without having been given to anybody, or not come in.
    pub(super) fn may_drop(&self) -> bool {
        self.max_length.is_some() || self.ttl_ms.is_some() || self.delivery_limit.is_some()
    }

    /// Whether a message that it has taken may leave it so. Who refuses at the bound keeps what was confirmed; but for what
    /// comes to it later, from an exchange that delays.
    pub(super) fn may_drop_accepted(&self, delayed: bool) -> bool {
        let keeps = self.refuses && !delayed;
        self.max_length.is_some() && !keeps || self.ttl_ms.is_some() || self.delivery_limit.is_some()
    }
}

/// A publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublisherPlan {
    /// What kind of exchange it publishes to.
    pub through: Through,
    /// The queue it publishes to; none: to all but the last, by a fanout exchange.
    pub queue: Option<usize>,
    /// Messages.
    pub count: u32,
    /// Messages that are not confirmed, at the most.
    pub window: u32,
    /// Microseconds between two messages.
    pub gap_us: u64,
    /// Of a hundred.
    pub persistent_percent: u32,
    /// Messages that have nowhere to go and are mandatory, of a hundred.
    pub nowhere_percent: u32,
    /// Messages with an expiration, of a hundred.
    pub expires_percent: u32,
    /// Bytes of a body.
    pub size: usize,
    /// Bytes of a body frame.
    pub piece: usize,
    /// Messages of a transaction; 0: confirms.
    pub transaction: u32,
    /// Transactions that are rolled back, of a hundred.
    pub rollback_percent: u32,
}

/// How a publisher's messages come to queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Through {
    /// To one queue by its name, or to all.
    Queue,
    /// Through a topic exchange.
    Subjects,
    /// Through a headers exchange.
    Marked,
    /// Through an exchange that delays, to all.
    Later,
    /// Through the exchange that leads to MQTT's subscribers as well.
    Bridge,
}

/// Words of routing keys.
pub(super) const SUBJECT_WORDS: [&str; 2] = ["a", "b"];

/// Binding keys.
const PATTERNS: [&str; 8] = ["a", "*.b", "#", "a.#", "#.b", "*.*", "#.a.#", "b.*.a"];

/// Topic filters.
const FILTERS: [&str; 5] = ["#", "a/#", "+/b", "a", "b/+/#"];

/// Headers that messages have, each with one of so many values.
pub(super) const MARK_NAMES: [&str; 2] = ["color", "size"];
pub(super) const MARK_VALUES: u64 = 2;

/// Delays of messages.
pub(super) const DELAYS_MS: [i32; 6] = [0, 1, 10, 50, 200, 700];

/// Expirations of messages.
pub(super) const EXPIRATIONS_MS: [u32; 6] = [0, 1, 10, 50, 200, 60_000];

/// A consumer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerPlan {
    /// The queue.
    pub queue: usize,
    /// It asks for one message after the other by Basic.Get.
    pub asks: bool,
    /// Unsettled messages at the most; 0: no limit.
    pub prefetch: u16,
    /// The bound is the channel's.
    pub global: bool,
    /// Messages are settled when they are sent.
    pub no_ack: bool,
    /// Microseconds from a delivery to what is done with it.
    pub think_us: u64,
    /// Of a hundred deliveries so many go back.
    pub requeue_percent: u32,
    /// Of a hundred deliveries so many go away.
    pub reject_percent: u32,
    /// Of a hundred answers so many are for all deliveries before as well.
    pub multiple_percent: u32,
    /// Answers of a transaction; 0: none.
    pub transaction: u32,
    /// Transactions that are rolled back, of a hundred.
    pub rollback_percent: u32,
    /// For what it acknowledges it publishes another message to this queue, in the same transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwards: Option<usize>,
    /// Of what it answers at the same time it answers the last first.
    pub backwards: bool,
    /// It leaves after so many deliveries, without settling the last ones, and comes back.
    pub leaves_after: Option<u32>,
    /// `x-priority`.
    pub priority: i32,
}

impl ConsumerPlan {
    /// From one queue to a later one, so that it comes to an end. A refused transaction would end the consumer's channel.
    fn may_forward(&self, queues: &[QueuePlan]) -> bool {
        let takes = |queue: usize| {
            let behind = self.transaction > 0 && queue > self.queue && queue + 1 < queues.len();
            behind && !(queues[queue].refuses && queues[queue].max_length.is_some())
        };
        self.forwards.is_none_or(takes)
    }
}

/// An MQTT client that publishes with QoS 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SensorPlan {
    /// Messages.
    pub count: u32,
    /// Messages that are not acknowledged, at the most.
    pub window: u32,
    /// Microseconds between two messages.
    pub gap_us: u64,
    /// Bytes of a payload.
    pub size: usize,
}

/// An MQTT client that subscribes with QoS 1 and whose session lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerPlan {
    /// Its topic filter.
    pub filter: String,
    /// Microseconds from a message to its acknowledgement.
    pub think_us: u64,
}

/// A client with a queue that does not last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LodgerPlan {
    /// The queue is exclusive; else it is auto-delete.
    pub exclusive: bool,
    /// It is declared durable.
    pub durable: bool,
    /// All that share have one queue.
    pub shares: bool,
    /// Messages of a visit.
    pub count: u32,
    /// Visits.
    pub visits: u32,
    /// Microseconds that it stays, and rests.
    pub think_us: u64,
    /// Of a hundred visits so many end without a word.
    pub leaves_percent: u32,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// When.
    pub at_us: u64,
    /// What.
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The machine loses its power.
    PowerCut,
    /// The process is killed.
    Kill,
    /// The operator stops the broker, which is started again.
    Shutdown,
    /// A client's connection breaks.
    Reset {
        /// The client.
        client: usize,
    },
}

impl FaultKind {
    /// What is counted when it takes effect.
    pub fn effect(self) -> &'static str {
        match self {
            FaultKind::PowerCut => "power cut",
            FaultKind::Kill => "process killed",
            FaultKind::Shutdown => "shutdown",
            FaultKind::Reset { .. } => "connection reset",
        }
    }
}

/// The queue of dead letters.
pub(super) const DEAD_QUEUE: &str = "dead";

/// The scenario of a seed.
pub fn generate(seed: u64) -> Scenario {
    let chance = Chance::new(seed);
    let draws = &mut chance.draws(Domain::Generate, 1);
    let fault_phase_us = draws.between(50_000, 400_000);
    let count = draws.between(1, 3) as usize;
    let mut queues: Vec<QueuePlan> = (0..count).map(|number| queue(draws, number)).collect();
    queues.push(QueuePlan { name: DEAD_QUEUE.to_owned(), ..plain(draws.percent(85)) });
    let publishers: Vec<PublisherPlan> =
        (0..draws.between(1, 3)).map(|_| publisher(draws, count, fault_phase_us)).collect();
    let consumers: Vec<ConsumerPlan> = (0..draws.between(1, 4)).map(|_| consumer(draws, &queues)).collect();
    let lodgers = lodgers(draws);
    let sensors: Vec<SensorPlan> =
        (0..*draws.pick(&[0, 0, 0, 1, 2])).map(|_| sensor(draws, fault_phase_us)).collect();
    let listener = draws.percent(40).then(|| ListenerPlan {
        filter: (*draws.pick(&FILTERS)).to_owned(),
        think_us: *draws.pick(&[0, 100, 5000]),
    });
    let clients = publishers.len() + consumers.len() + lodgers.len() + sensors.len();
    let clients = clients + usize::from(listener.is_some());
    let faults = (0..draws.below(6)).map(|_| fault(draws, fault_phase_us, clients)).collect();
    Scenario {
        why: String::new(),
        seed,
        broker: broker(draws),
        disk: DiskSettings { latency_max_us: *draws.pick(&[100, 500, 3000]), ..DiskSettings::default() },
        latency_us: *draws.pick(&[(10, 10), (10, 300), (20, 2000)]),
        split_percent: *draws.pick(&[0, 20, 100]),
        queues,
        publishers,
        consumers,
        sensors,
        listener,
        lodgers,
        faults,
        fault_phase_us,
    }
}

/// A queue without arguments or bindings.
pub(super) fn plain(durable: bool) -> QueuePlan {
    QueuePlan {
        name: String::new(),
        durable,
        max_length: None,
        refuses: false,
        ttl_ms: None,
        dead_letters: false,
        priorities: 0,
        single_active: false,
        delivery_limit: None,
        subjects: Vec::new(),
        topics: Vec::new(),
        mark: None,
    }
}

fn queue(draws: &mut Draws, number: usize) -> QueuePlan {
    let some = |draws: &mut Draws, percent, from: &[u32]| draws.percent(percent).then(|| *draws.pick(from));
    let (max_length, refuses) = (some(draws, 20, &[1, 3, 10, 50]), draws.percent(50));
    // Who publishes by MQTT cannot be refused but by closing its connection.
    let bridged = if max_length.is_some() && refuses { 0 } else { draws.below(3) };
    QueuePlan {
        name: queue_name(number),
        max_length,
        refuses,
        topics: (0..bridged).map(|_| (*draws.pick(&PATTERNS)).to_owned()).collect(),
        ttl_ms: some(draws, 20, &[0, 1, 20, 100]),
        dead_letters: draws.percent(40),
        priorities: if draws.percent(20) { *draws.pick(&[1, 3, 10]) } else { 0 },
        single_active: draws.percent(15),
        delivery_limit: some(draws, 15, &[0, 1, 3]),
        subjects: (0..draws.below(3)).map(|_| (*draws.pick(&PATTERNS)).to_owned()).collect(),
        mark: draws.percent(60).then(|| mark(draws)),
        ..plain(draws.percent(75))
    }
}

fn mark(draws: &mut Draws) -> MarkPlan {
    let names = &MARK_NAMES[..draws.between(1, MARK_NAMES.len() as u64) as usize];
    let value = |draws: &mut Draws| draws.below(MARK_VALUES) as i32;
    MarkPlan {
        any: draws.percent(50),
        marks: names.iter().map(|name| ((*name).to_owned(), value(draws))).collect(),
    }
}

/// The name of a queue other than that of dead letters.
pub(super) fn queue_name(number: usize) -> String {
    format!("queue-{number}")
}

fn publisher(draws: &mut Draws, queues: usize, phase_us: u64) -> PublisherPlan {
    let count = *draws.pick(&[1, 5, 20, 100, 300]);
    let through = match draws.below(10) {
        0 => Through::Subjects,
        1 => Through::Marked,
        2 => Through::Later,
        3 => Through::Bridge,
        _ => Through::Queue,
    };
    // What is delayed and what expires have their own clocks.
    let expires = draws.percent(20) && !matches!(through, Through::Later | Through::Bridge);
    PublisherPlan {
        through,
        queue: draws.percent(75).then(|| draws.below(queues as u64) as usize),
        count,
        window: *draws.pick(&[1, 4, 32, 1000]),
        gap_us: *draws.pick(&[0, 1, phase_us / u64::from(count)]),
        persistent_percent: *draws.pick(&[0, 50, 100, 100, 100]),
        nowhere_percent: *draws.pick(&[0, 0, 10]),
        expires_percent: if expires { *draws.pick(&[20, 100]) } else { 0 },
        size: *draws.pick(&[16, 16, 100, 5000]),
        piece: *draws.pick(&[7, 1000, 4088]),
        transaction: *draws.pick(&[0, 0, 0, 1, 5]),
        rollback_percent: *draws.pick(&[0, 30]),
    }
}

fn consumer(draws: &mut Draws, queues: &[QueuePlan]) -> ConsumerPlan {
    let no_ack = draws.percent(10);
    let queue = draws.below(queues.len() as u64) as usize;
    let plan = ConsumerPlan {
        queue,
        asks: draws.percent(15),
        prefetch: *draws.pick(&[0, 1, 2, 10, 100]),
        global: draws.percent(20),
        no_ack,
        think_us: *draws.pick(&[0, 100, 5000, 50_000]),
        requeue_percent: *draws.pick(&[0, 0, 10, 40]),
        reject_percent: *draws.pick(&[0, 0, 10, 30]),
        multiple_percent: *draws.pick(&[0, 0, 20]),
        transaction: *draws.pick(&[0, 0, 0, 0, 1, 4]),
        rollback_percent: *draws.pick(&[0, 30]),
        forwards: draws.percent(70).then_some(queue + 1),
        backwards: draws.percent(25),
        leaves_after: draws.percent(30).then(|| *draws.pick(&[1, 5, 30])),
        priority: *draws.pick(&[0, 0, 0, 1, -3]),
    };
    ConsumerPlan { forwards: plan.forwards.filter(|_| plan.may_forward(queues)), ..plan }
}

fn sensor(draws: &mut Draws, phase_us: u64) -> SensorPlan {
    let count = *draws.pick(&[1, 5, 20, 100]);
    SensorPlan {
        count,
        window: *draws.pick(&[1, 4, 32]),
        gap_us: *draws.pick(&[0, 1, phase_us / u64::from(count)]),
        size: *draws.pick(&[16, 100, 5000]),
    }
}

fn lodgers(draws: &mut Draws) -> Vec<LodgerPlan> {
    let count = if draws.percent(40) { draws.between(1, 3) } else { 0 };
    // All who share one queue declare it alike.
    let shared_durable = draws.percent(50);
    let mut lodger = || {
        let exclusive = draws.percent(40);
        let shares = !exclusive && draws.percent(60);
        let durable = if shares { shared_durable } else { draws.percent(50) };
        LodgerPlan {
            exclusive,
            durable,
            shares,
            count: *draws.pick(&[0, 1, 10]),
            visits: *draws.pick(&[1, 5, 20]),
            think_us: *draws.pick(&[0, 1000, 20_000]),
            leaves_percent: *draws.pick(&[0, 50, 100]),
        }
    };
    (0..count).map(|_| lodger()).collect()
}

fn fault(draws: &mut Draws, phase_us: u64, clients: usize) -> FaultPlan {
    let kind = match draws.below(10) {
        0..4 => FaultKind::PowerCut,
        4..6 => FaultKind::Kill,
        6 => FaultKind::Shutdown,
        _ => FaultKind::Reset { client: draws.below(clients as u64) as usize },
    };
    FaultPlan { at_us: draws.below(phase_us), kind }
}

fn broker(draws: &mut Draws) -> BrokerSettings {
    BrokerSettings {
        segment_kib: *draws.pick(&[64, 64, 128, 1024]),
        horizon_block: *draws.pick(&[1, 4, 16, 1024]),
        turn_work: *draws.pick(&[1, 3, 64, 4096]),
        lazy_sync_ms: *draws.pick(&[1, 10]),
        unsent_bytes: *draws.pick(&[1, 1000, 1 << 20]),
        held_replies: *draws.pick(&[2, 10, 1000]),
        cache_bytes: *draws.pick(&[0, 4096, 65_536]),
        checkpoint_bytes: *draws.pick(&[8192, 65_536]),
        ..BrokerSettings::default()
    }
}

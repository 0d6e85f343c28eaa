//! The faults of a generated scenario: each seed draws which kinds there are, and how many of each.

use super::broker;
use crate::chance::Draws;
use crate::fault::{Direction, Fault, Pages, When};

/// The faults so far.
#[derive(Default)]
struct Plan(Vec<Fault>);

impl Plan {
    /// With this chance, one to `most` faults of a kind.
    fn some(&mut self, draws: &mut Draws, percent: u32, most: u64, fault: impl Fn(&mut Draws) -> Fault) {
        if draws.percent(percent) {
            for _ in 0..draws.between(1, most) {
                self.0.push(fault(draws));
            }
        }
    }
}

/// Some faults, before this time.
pub(super) fn some(draws: &mut Draws, clients: usize, end_us: u64) -> Vec<Fault> {
    let mut plan = Plan::default();
    of_the_process(&mut plan, draws, end_us);
    of_the_disk(&mut plan, draws, end_us);
    of_the_network(&mut plan, draws, clients, end_us);
    plan.0
}

fn of_the_process(plan: &mut Plan, draws: &mut Draws, end_us: u64) {
    plan.some(draws, 70, 3, |draws| Fault::PowerCut {
        when: crash_at(draws, end_us),
        down_us: down(draws),
        leaves: None,
    });
    plan.some(draws, 30, 3, |draws| {
        let when = When::RecoveryOperation(draws.between(1, 40));
        if draws.percent(70) {
            Fault::PowerCut { when, down_us: down(draws), leaves: None }
        } else {
            Fault::ProcessCrash { when, down_us: down(draws) }
        }
    });
    plan.some(draws, 35, 3, |draws| Fault::ProcessCrash {
        when: crash_at(draws, end_us),
        down_us: down(draws),
    });
    plan.some(draws, 10, 1, |draws| Fault::Shutdown { when: at(draws, end_us), down_us: down(draws) });
    plan.some(draws, 12, 2, |draws| Fault::Pause {
        when: at(draws, end_us),
        for_us: *draws.pick(&[5_000, 100_000, 2_000_000]),
    });
    plan.some(draws, 10, 2, |draws| Fault::Reload {
        when: at(draws, end_us),
        broker: Box::new(broker(draws)),
    });
    plan.some(draws, 10, 2, |draws| Fault::WallJump {
        when: at(draws, end_us),
        by_ms: draws.between(0, 20_000_000) as i64 - 10_000_000,
    });
}

fn of_the_disk(plan: &mut Plan, draws: &mut Draws, end_us: u64) {
    plan.some(draws, 20, 2, |draws| {
        let when = match draws.below(6) {
            0..4 => When::Sync(draws.between(1, 150)),
            4 => When::Write(draws.between(1, 150)),
            _ => When::DiskOperation(draws.between(1, 100)),
        };
        let pages = if draws.percent(50) { Pages::Dropped } else { Pages::KeptClean };
        Fault::DiskError { when, pages, down_us: down(draws), reboot: draws.percent(50) }
    });
    plan.some(draws, 5, 1, |draws| Fault::DiskError {
        when: When::Read(draws.between(1, 10)),
        pages: Pages::Dropped,
        down_us: 1_000,
        reboot: false,
    });
    plan.some(draws, 20, 2, |draws| Fault::SlowDisk {
        when: at(draws, end_us),
        for_us: draws.between(1_000, 300_000),
        extra_us: draws.between(1_000, 100_000),
    });
    plan.some(draws, 6, 1, |draws| Fault::DiskFull {
        when: at(draws, end_us),
        for_us: draws.between(10_000, 1_000_000),
    });
    plan.some(draws, 4, 1, |draws| Fault::Rot { when: at(draws, end_us) });
    plan.some(draws, 3, 1, |draws| Fault::LostWrite { when: a_write(draws, end_us) });
    plan.some(draws, 3, 1, |draws| Fault::MisdirectedWrite { when: a_write(draws, end_us) });
    plan.some(draws, 3, 1, |draws| Fault::StaleRead { when: When::Read(draws.between(1, 60)) });
}

fn of_the_network(plan: &mut Plan, draws: &mut Draws, clients: usize, end_us: u64) {
    plan.some(draws, 40, 6, |draws| Fault::Reset {
        when: at(draws, end_us),
        client: some_or_all(draws, clients),
    });
    plan.some(draws, 25, 3, |draws| Fault::HalfOpen {
        when: at(draws, end_us),
        client: some_client(draws, clients),
    });
    plan.some(draws, 25, 3, |draws| Fault::Stall {
        when: at(draws, end_us),
        for_us: draws.between(1_000, 400_000),
        client: some_or_all(draws, clients),
        direction: *draws.pick(&[Direction::ToBroker, Direction::ToClient, Direction::Both]),
    });
}

fn at(draws: &mut Draws, end_us: u64) -> When {
    When::AtUs(draws.below(end_us))
}

fn down(draws: &mut Draws) -> u64 {
    *draws.pick(&[1_000, 20_000, 300_000])
}

fn crash_at(draws: &mut Draws, end_us: u64) -> When {
    match draws.below(10) {
        0..2 => When::AtUs(draws.below(end_us)),
        2..4 => a_write(draws, end_us),
        4..7 => When::DiskOperation(draws.between(1, 60)),
        7..9 => When::DiskOperation(draws.between(1, 600)),
        _ => When::Sync(draws.between(1, 200)),
    }
}

fn a_write(draws: &mut Draws, end_us: u64) -> When {
    When::WriteSince { at_us: draws.below(end_us), number: draws.between(1, 20) }
}

fn some_client(draws: &mut Draws, clients: usize) -> usize {
    draws.below(clients as u64) as usize
}

fn some_or_all(draws: &mut Draws, clients: usize) -> Option<usize> {
    (!draws.percent(15)).then(|| some_client(draws, clients))
}

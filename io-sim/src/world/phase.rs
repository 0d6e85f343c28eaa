//! The phases of a run: faults; healing, until everything acknowledged has arrived; rest; a last power cut, after
//! which nothing may come that was settled.

use super::World;
use crate::happening::Happening;
use crate::outcome::Checker;

/// How often a healed run is looked at.
const LOOK_US: u64 = 20_000;
/// How long all must be quiet to count as quiet.
const QUIET_US: u64 = 300_000;
/// How long a quiet broker rests before the last power cut: enough for everything lazy to be on the disk.
const REST_US: u64 = 2_500_000;
/// What clients settled so long ago is on the disk by then.
const LAZY_US: u64 = 2_000_000;

/// How long a run is healed that may never be quiet.
const REFUSED_US: u64 = 5_000_000;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Clients work and things go wrong.
    Faults,
    /// Nothing goes wrong any more. Quiet since then, if it is quiet; `last` tells that the last power cut was.
    Healing { until: u64, quiet_since: Option<u64>, last: bool },
    /// Everything has arrived.
    Resting { until: u64 },
}

impl World<'_> {
    /// The faults are over.
    pub(super) fn heal(&mut self) {
        self.trace.note("phase", &[], || "the faults are over".to_owned());
        self.healing_begins(false);
        self.set_disk_full(false);
        self.disk.set_extra_us(0);
        self.start_soon();
        self.network.heal();
        for client in 0..self.clients.len() {
            self.with_client(client, |client, around| client.heal(around));
        }
    }

    /// A look whether all is quiet, and what comes next.
    pub(super) fn look(&mut self) {
        let now = self.now();
        self.schedule.add(now + LOOK_US, Happening::Look);
        match self.phase {
            Phase::Faults => {}
            Phase::Healing { until, quiet_since, last } => {
                let quiet = self.process.is_serving()
                    && self.clients.iter().all(crate::client::Client::is_quiet)
                    && self.model.is_settled();
                let quiet_since = if quiet { quiet_since.or(Some(now)) } else { None };
                self.phase = Phase::Healing { until, quiet_since, last };
                if quiet_since.is_some_and(|since| now >= since + QUIET_US) {
                    self.quiet(last);
                } else if now > until {
                    self.time_is_up();
                }
            }
            Phase::Resting { until } => {
                if now >= until {
                    self.trace.note("phase", &[], || "the last power cut".to_owned());
                    self.model.settlements_proven_until(now - LAZY_US);
                    self.begin_crash_choices(0);
                    self.power_cut(10_000, None);
                    self.healing_begins(true);
                }
            }
        }
    }

    fn healing_begins(&mut self, last: bool) {
        let may_never_end = self.publishers_may_be_refused();
        let most_us =
            if may_never_end { self.scenario.heal_us.min(REFUSED_US) } else { self.scenario.heal_us };
        let until = self.now() + most_us;
        if !last {
            self.schedule.add(self.now() + LOOK_US, Happening::Look);
        }
        self.phase = Phase::Healing { until, quiet_since: None, last };
    }

    fn quiet(&mut self, last: bool) {
        if last || !self.scenario.last_power_cut {
            self.over = true;
        } else {
            self.trace.note("phase", &[], || "everything has arrived".to_owned());
            self.phase = Phase::Resting { until: self.now() + REST_US };
        }
    }

    /// Who publishes to a full queue is disconnected and comes back, so nobody can promise an end.
    fn publishers_may_be_refused(&self) -> bool {
        self.scenario.may_refuse_publishers()
    }

    fn time_is_up(&mut self) {
        if self.publishers_may_be_refused() {
            // They come back and are refused again for ever; what was acknowledged some time ago has no excuse.
            self.model.fail_on_old_debts(self.now() - REFUSED_US / 2);
            self.over = true;
            return;
        }
        self.model.fail_on_missing();
        if !self.process.is_serving() {
            self.model.fail(Checker::Progress, "broker", "it does not serve, long after the last fault");
        }
        for client in self.clients.iter().filter(|client| !client.is_quiet()) {
            self.model.fail(Checker::Progress, "client", format!("after healing, {}", client.waits_for()));
        }
        self.model.fail(Checker::Progress, "run", "it was never quiet for long enough");
    }
}

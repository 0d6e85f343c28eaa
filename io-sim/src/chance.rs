//! Residual choices: what a scenario does not say (latencies, where bytes are split, which sectors survive).
//!
//! Every choice is a keyed hash of (seed, domain, entity, ordinal): ChaCha8 under a key made of the first
//! three, read at the ordinal. So a fault that is taken out of a scenario does not shift the choices of
//! anything else, and the range reduction is ours, so no release of a library changes what a seed means.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What a choice is about. The numbers are part of what a seed means: never change one.
#[derive(Clone, Copy)]
pub(crate) enum Domain {
    Generate = 1,
    ToBroker = 2,
    ToClient = 3,
    DiskLatency = 4,
    Survival = 5,
    Client = 6,
    Driver = 7,
    Crash = 8,
    BrokerSeed = 9,
    FaultDelay = 10,
    Lie = 11,
    Boot = 12,
    Login = 13,
    Shell = 100,
}

/// The entity of that name (FNV-1a).
pub(crate) fn entity(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The source of all residual choices of a run.
#[derive(Clone, Copy)]
pub(crate) struct Chance {
    seed: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance { seed }
    }

    /// The choices of one entity, from ordinal 0 on.
    pub(crate) fn draws(self, domain: Domain, entity: u64) -> Draws {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&(domain as u64).to_le_bytes());
        key[16..24].copy_from_slice(&entity.to_le_bytes());
        key[24..].copy_from_slice(b"vowmqsim");
        Draws(ChaCha8Rng::from_seed(key))
    }
}

/// The choices of one entity, one after the other.
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to `bound - 1`; 0 when the bound is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Both ends included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, every recorded seed would mean another run.
    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut draws = Chance::new(7).draws(Domain::Survival, 3);
        let first: Vec<u64> = (0..4).map(|_| draws.below(1000)).collect();
        let mut again = Chance::new(7).draws(Domain::Survival, 3);
        assert_eq!(first, (0..4).map(|_| again.below(1000)).collect::<Vec<_>>());
        let mut other = Chance::new(7).draws(Domain::Survival, 4);
        assert_ne!(first, (0..4).map(|_| other.below(1000)).collect::<Vec<_>>());
    }
}

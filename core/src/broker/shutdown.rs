//! The end, as asked for: held answers are flushed, connections closed with their wills, everything synced.

use super::{Broker, Stage};
use crate::ids::ConnectionId;
use crate::mqtt::packet::ReasonCode;
use crate::output::{CloseKind, Halt};
use alloc::vec::Vec;

impl Broker {
    pub(super) fn shut_down(&mut self) {
        if self.stage == Stage::Serving {
            self.stage = Stage::Flushing;
            self.log.want(self.log.last());
        }
    }

    pub(super) fn check_shutdown(&mut self) {
        if matches!(self.stage, Stage::Serving | Stage::Stopped) {
            return;
        }
        if self.log.is_stuck() {
            let error = "the disk is full and the reserve is used up".into();
            return self.stop(Halt::Storage { doing: "writing the last records".into(), error });
        }
        if !self.is_durable() {
            return;
        }
        if self.stage == Stage::Flushing {
            self.stage = Stage::Closing;
            self.close_all();
            self.log.want(self.log.last());
        }
        if self.stage == Stage::Closing && self.is_durable() {
            self.stop(Halt::ShutDown);
        }
    }

    fn close_all(&mut self) {
        let mut open: Vec<ConnectionId> = self.connections.keys().copied().collect();
        open.sort_unstable();
        for id in open {
            let text = "the broker shuts down";
            match self.connections[&id].amqp {
                Some(_) => self.dismiss_amqp(id, text),
                None => {
                    self.dismiss(id, ReasonCode::ServerShuttingDown, CloseKind::Normal, "", text.into());
                }
            }
        }
    }
}

//! Where orders to the driver gather until it polls them.

use crate::ids::OpId;
use crate::output::{DiskRequest, Output};
use alloc::collections::VecDeque;

/// Orders in their sequence, and the numbering of disk operations.
#[derive(Default)]
pub struct Outbox {
    outputs: VecDeque<Output>,
    last_op: u64,
}

impl Outbox {
    /// Adds an order.
    pub fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Adds a disk operation; its number.
    pub fn disk(&mut self, request: DiskRequest) -> OpId {
        self.last_op += 1;
        let op = OpId(self.last_op);
        self.push(Output::Disk { op, request });
        op
    }

    /// The next order.
    pub fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Forgets all orders.
    pub fn clear(&mut self) {
        self.outputs.clear();
    }
}

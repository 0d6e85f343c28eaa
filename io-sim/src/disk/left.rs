//! What a crash makes of something that was not durable.

use crate::fault::UnderWay;
use std::fmt;
use vowmq_core::ids::{OpId, SegmentNumber};

/// What became of it.
#[derive(Clone, Copy)]
pub(crate) enum Left {
    /// An operation under way.
    Operation(OpId, UnderWay),
    /// A change of a name, which stays or not.
    Name(SegmentNumber, bool),
    /// A sector by its place, or the new length of a file, and what that is counted as.
    Place(SegmentNumber, Option<usize>, &'static str),
}

impl Left {
    /// What it is counted as, if it is.
    pub(crate) fn effect(self) -> Option<&'static str> {
        match self {
            Left::Operation(..) | Left::Name(_, true) => None,
            Left::Name(_, false) => Some("directory entry undone"),
            Left::Place(_, _, effect) => Some(effect),
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Left::Operation(op, UnderWay::NotBegun) => write!(f, "operation {op} was under way: not begun"),
            Left::Operation(op, UnderWay::Written) => {
                write!(f, "operation {op} was under way: written and not synced")
            }
            Left::Operation(op, UnderWay::Done) => {
                write!(f, "operation {op} was under way: done all the same")
            }
            Left::Name(segment, true) => write!(f, "the name of segment {segment} stays as it was changed"),
            Left::Name(segment, false) => write!(f, "the name of segment {segment}: the change is undone"),
            Left::Place(segment, Some(at), effect) => write!(f, "segment {segment} at {at}: {effect}"),
            Left::Place(segment, None, effect) => write!(f, "segment {segment}: {effect}"),
        }
    }
}

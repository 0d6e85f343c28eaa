//! Reads the answers off a stream as it leaves the broker: enough of MQTT's framing to find CONNACK, PUBACK and
//! PUBREC wherever the bytes are cut.

/// What leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// CONNACK with return code 0.
    Accepted { present: bool },
    /// PUBACK or PUBREC with this packet id.
    Answer(u16),
}

/// Where in the stream we are.
#[derive(Default)]
pub(crate) struct Tap {
    state: State,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    FirstByte,
    Length {
        kind: u8,
        shift: u32,
        length: usize,
    },
    Body {
        kind: u8,
        left: usize,
        read: usize,
        id: u16,
    },
}

impl Tap {
    /// Takes the next bytes; calls `leaves` with every answer that ends in them.
    pub(crate) fn take(&mut self, bytes: &[u8], mut leaves: impl FnMut(Leaving)) {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::FirstByte => {
                    self.state = State::Length { kind: bytes[at] >> 4, shift: 0, length: 0 };
                    at += 1;
                }
                State::Length { kind, shift, length } => {
                    let length = length | usize::from(bytes[at] & 0x7f) << shift;
                    let more = bytes[at] & 0x80 != 0 && shift < 21;
                    self.state = match (more, length) {
                        (true, _) => State::Length { kind, shift: shift + 7, length },
                        (false, 0) => State::FirstByte,
                        (false, _) => State::Body { kind, left: length, read: 0, id: 0 },
                    };
                    at += 1;
                }
                State::Body { kind, left, mut read, mut id } => {
                    let taken = left.min(bytes.len() - at);
                    for byte in bytes[at..at + taken].iter().take(2usize.saturating_sub(read)) {
                        id = id << 8 | u16::from(*byte);
                    }
                    read += taken;
                    at += taken;
                    if left > taken {
                        self.state = State::Body { kind, left: left - taken, read, id };
                        continue;
                    }
                    self.state = State::FirstByte;
                    match kind {
                        // Flags, then the return code.
                        2 if id & 0xff == 0 => leaves(Leaving::Accepted { present: id & 0x100 != 0 }),
                        4 | 5 => leaves(Leaving::Answer(id)),
                        _ => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were it to fail, answers would leave unchecked.
    #[test]
    fn answers_are_found_wherever_the_bytes_are_cut() {
        let mut stream = vec![0x20, 2, 1, 0, 0x40, 2, 1, 2, 0x30, 0x80, 0x01];
        stream.extend([7; 128]);
        stream.extend([0xd0, 0, 0x50, 2, 0, 9]);
        for cut in 0..stream.len() {
            let mut found = Vec::new();
            let mut tap = Tap::default();
            tap.take(&stream[..cut], |leaving| found.push(leaving));
            tap.take(&stream[cut..], |leaving| found.push(leaving));
            let accepted = Leaving::Accepted { present: true };
            assert_eq!(found, [accepted, Leaving::Answer(0x102), Leaving::Answer(9)], "cut at {cut}");
        }
    }
}

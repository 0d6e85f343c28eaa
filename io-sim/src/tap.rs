//! Reads the answers off a stream as it leaves the broker: enough of MQTT's framing to find PUBACK and PUBREC
//! wherever the bytes are cut.

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
        answer: bool,
        shift: u32,
        length: usize,
    },
    Body {
        answer: bool,
        left: usize,
        read: usize,
        id: u16,
    },
}

impl Tap {
    /// Takes the next bytes; calls `answer` with the packet id of every PUBACK and PUBREC that ends in them.
    pub(crate) fn take(&mut self, bytes: &[u8], mut answer: impl FnMut(u16)) {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::FirstByte => {
                    self.state =
                        State::Length { answer: matches!(bytes[at] >> 4, 4 | 5), shift: 0, length: 0 };
                    at += 1;
                }
                State::Length { answer, shift, length } => {
                    let length = length | usize::from(bytes[at] & 0x7f) << shift;
                    let more = bytes[at] & 0x80 != 0 && shift < 21;
                    self.state = match (more, length) {
                        (true, _) => State::Length { answer, shift: shift + 7, length },
                        (false, 0) => State::FirstByte,
                        (false, _) => State::Body { answer, left: length, read: 0, id: 0 },
                    };
                    at += 1;
                }
                State::Body { answer: is_answer, left, mut read, mut id } => {
                    let taken = left.min(bytes.len() - at);
                    for byte in bytes[at..at + taken].iter().take(2usize.saturating_sub(read)) {
                        id = id << 8 | u16::from(*byte);
                    }
                    read += taken;
                    at += taken;
                    if left > taken {
                        self.state = State::Body { answer: is_answer, left: left - taken, read, id };
                        continue;
                    }
                    self.state = State::FirstByte;
                    if is_answer {
                        answer(id);
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
        let mut stream = vec![0x20, 2, 0, 0, 0x40, 2, 1, 2, 0x30, 0x80, 0x01];
        stream.extend([7; 128]);
        stream.extend([0xd0, 0, 0x50, 2, 0, 9]);
        for cut in 0..stream.len() {
            let mut found = Vec::new();
            let mut tap = Tap::default();
            tap.take(&stream[..cut], |id| found.push(id));
            tap.take(&stream[cut..], |id| found.push(id));
            assert_eq!(found, [0x102, 9], "cut at {cut}");
        }
    }
}

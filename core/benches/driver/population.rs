//! Subscriptions in any number, shaped as those of a fleet: of ten, eight name one device's topic, one has `+` for the
//! site, one has `#` below the device. `tests/bench/population.py` makes the same.

const SITES: usize = 1000;

/// The filter with this index of `size` in all, a multiple of 10.
pub fn filter(index: usize, size: usize) -> String {
    let (device, kind) = (index / 10, index % 10);
    match kind {
        0 => format!("site/+/device/{device}/state"),
        1 => format!("site/{}/device/{device}/#", device % SITES),
        _ => topic((kind - 2) * (size / 10) + device),
    }
}

/// Topics that exactly three filters of `size` match, one of each shape, spread over all of them; without end.
pub fn topics(size: usize) -> impl Iterator<Item = String> {
    let devices = size / 10;
    // A stride without a factor in common with a power of ten comes to every device.
    (0..).map(move |number: usize| topic(number * 7919 % devices))
}

fn topic(device: usize) -> String {
    format!("site/{}/device/{device}/state", device % SITES)
}

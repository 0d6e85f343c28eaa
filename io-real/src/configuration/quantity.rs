//! Sizes and spans of time as people write them: `64 MiB`, `30 d`.

const BYTE_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

const TIME_UNITS: [(&str, u64); 5] =
    [("d", 24 * 3600 * 1000), ("h", 3600 * 1000), ("min", 60 * 1000), ("s", 1000), ("ms", 1)];

/// Bytes of a size such as `64 MiB`; a number alone is bytes.
pub(super) fn bytes_of(text: &str) -> Result<u64, String> {
    read(text, &BYTE_UNITS).and_then(|(number, unit)| {
        let unit = unit.unwrap_or(1);
        number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too large"))
    })
}

/// Milliseconds of a span of time such as `30 d`. A number alone could be anything, so only 0 needs no unit.
pub(super) fn millis_of(text: &str) -> Result<u64, String> {
    read(text, &TIME_UNITS).and_then(|(number, unit)| match unit {
        Some(unit) => number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too long")),
        None if number == 0 => Ok(0),
        None => Err(format!("{text:?} needs a unit, such as \"{number} s\" ({})", names(&TIME_UNITS))),
    })
}

/// A size in the largest unit that divides it.
pub(super) fn show_bytes(bytes: u64) -> String {
    show(bytes, &BYTE_UNITS)
}

/// A span of time in the largest unit that divides it.
pub(super) fn show_millis(millis: u64) -> String {
    show(millis, &TIME_UNITS)
}

fn read(text: &str, units: &[(&str, u64)]) -> Result<(u64, Option<u64>), String> {
    let trimmed = text.trim();
    let end = trimmed.find(|character: char| !character.is_ascii_digit()).unwrap_or(trimmed.len());
    let (digits, unit) = (&trimmed[..end], trimmed[end..].trim_start());
    if digits.is_empty() {
        return Err(format!("{text:?} is not a whole number with a unit ({})", names(units)));
    }
    let number = digits.parse().map_err(|_| format!("{text:?} is too large"))?;
    if unit.is_empty() {
        return Ok((number, None));
    }
    let known = units.iter().find(|(name, _)| *name == unit);
    let (_, factor) = known.ok_or_else(|| format!("{unit:?} is no unit here; there are {}", names(units)))?;
    Ok((number, Some(*factor)))
}

fn show(number: u64, units: &[(&str, u64)]) -> String {
    let fits = |factor: u64| number != 0 && number.is_multiple_of(factor);
    let unit = units.iter().find(|(_, factor)| fits(*factor));
    unit.map_or_else(|| "0".to_owned(), |(name, factor)| format!("{} {name}", number / factor))
}

fn names(units: &[(&str, u64)]) -> String {
    let names: Vec<&str> = units.iter().rev().map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        // If it failed, the printed configuration would mean something else than what is in force.
        for number in [0, 1, 7, 1000, 1024, 1536, 60_000, 90_000, 86_400_000, 1 << 20, 3 << 30, u64::MAX] {
            assert_eq!(bytes_of(&show_bytes(number)), Ok(number));
            assert_eq!(millis_of(&show_millis(number)), Ok(number));
        }
        assert_eq!(show_bytes(64 << 20), "64 MiB");
        assert_eq!(show_millis(30 * 24 * 3600 * 1000), "30 d");
    }

    #[test]
    fn a_wrong_quantity_is_refused_with_the_reason() {
        // If it failed, a limit could be off by a factor of a thousand and nobody would know.
        assert_eq!(bytes_of("64MiB"), Ok(64 << 20));
        assert_eq!(bytes_of("4096"), Ok(4096));
        assert_eq!(
            bytes_of("64 MB"),
            Err("\"MB\" is no unit here; there are B, KiB, MiB, GiB, TiB".to_owned())
        );
        assert_eq!(
            millis_of("10"),
            Err("\"10\" needs a unit, such as \"10 s\" (ms, s, min, h, d)".to_owned())
        );
        assert!(millis_of("1.5 s").is_err());
        assert!(millis_of("-1 s").is_err());
        assert!(bytes_of("").is_err());
        assert!(bytes_of("99999999999999999999 B").is_err());
        assert!(bytes_of("99999999999 TiB").is_err());
    }
}

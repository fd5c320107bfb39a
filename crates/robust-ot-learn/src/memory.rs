//! Sizes in bytes, and how much memory the machine has.

use std::fmt;
use std::fs;
use std::str::FromStr;

use robust_ot::{Error, Result};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// The fraction of the free memory that a solve takes by default.
const SHARE: f64 = 0.5;
/// The free memory assumed on a machine that does not report it.
const FALLBACK: usize = 8_000_000_000;

/// A number of bytes, written as `2GB`, `1.5GiB`, `300MB` or a plain number.
///
/// ```
/// use robust_ot_learn::Memory;
/// assert_eq!("2GB".parse::<Memory>()?.0, 2_000_000_000);
/// assert_eq!(Memory(1_500_000).to_string(), "1.5 MB");
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(pub usize);

const UNITS: [(&str, f64); 9] = [
    ("KIB", 1024.0),
    ("MIB", 1_048_576.0),
    ("GIB", 1_073_741_824.0),
    ("TIB", 1_099_511_627_776.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
];

impl FromStr for Memory {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let upper = text.trim().to_ascii_uppercase();
        let unit = UNITS.iter().find(|(name, _)| upper.ends_with(name));
        let (number, factor) = unit
            .map_or((upper.as_str(), 1.0), |(name, factor)| (&upper[..upper.len() - name.len()], *factor));
        let bytes = number.trim().parse::<f64>().ok().map(|number| number * factor);
        match bytes.filter(|bytes| *bytes >= 0.0 && *bytes < 1e18) {
            Some(bytes) => Ok(Self(bytes as usize)),
            None => Err(Error::parameter("memory", "a size such as 2GB, 500MB or 1.5GiB", text)),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, bytes) = (self.0, self.0 as f64);
        match size {
            0..1_000 => write!(f, "{size} bytes"),
            1_000..1_000_000 => write!(f, "{:.0} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", bytes / 1e6),
            _ => write!(f, "{:.1} GB", bytes / 1e9),
        }
    }
}

impl Memory {
    /// The free memory of this machine, within the limits of its container and of this process (`ulimit -v`).
    pub fn free() -> Self {
        let system =
            System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::everything()));
        let free = system.cgroup_limits().map_or(u64::MAX, |limits| limits.free_memory);
        let free = match free.min(system.available_memory()) {
            0 => FALLBACK,
            free => usize::try_from(free).unwrap_or(usize::MAX),
        };
        Self(free.min(free_addresses().unwrap_or(usize::MAX)))
    }

    /// Half of the free memory: the share that a solve takes by default.
    pub fn share() -> Self {
        Self((Self::free().0 as f64 * SHARE) as usize)
    }
}

/// The part of the address space that a limit leaves to this process, where Linux reports one.
fn free_addresses() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: usize = limit.split_whitespace().next()?.parse().ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kilobytes: usize = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(limit.saturating_sub(kilobytes.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        let read = |text: &str| text.parse::<Memory>().ok().map(|memory| memory.0);
        assert_eq!(read("2GB"), Some(2_000_000_000));
        assert_eq!(read("1.5 gib"), Some(1_610_612_736));
        assert_eq!(read("300mb"), Some(300_000_000));
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("17B"), Some(17));
        for bad in ["", "GB", "-1GB", "two", "nan", "inf", "1e30", "2 potatoes"] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_machine_has_memory() {
        assert!(Memory::share().0 > 0);
    }
}

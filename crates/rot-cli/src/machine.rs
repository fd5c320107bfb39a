//! A description of the machine, stored with every measurement.

use std::num::NonZero;
use std::thread::available_parallelism;

use robust_ot_learn::Memory;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// Processor, cores, memory and system, in a line.
pub fn machine() -> String {
    let kinds = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(kinds);
    let processor = system.cpus().first().map_or("", |cpu| cpu.brand().trim());
    let cores = available_parallelism().map_or(1, NonZero::get);
    let processor = if processor.is_empty() { "unknown CPU" } else { processor };
    let memory = Memory(usize::try_from(system.total_memory()).unwrap_or(usize::MAX));
    format!("{processor}, {cores} cores, {memory}, {}", std::env::consts::OS)
}

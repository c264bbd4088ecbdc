//! What this process has used, as the operating system reports it.

/// The kernel's clock ticks per second in `/proc/self/stat`: 100 on every Linux platform Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds (user and system, all threads) that this process has used, where the platform reports them.
pub fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets and may itself hold spaces and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// The resident memory of this process in bytes, where the platform reports it.
pub fn rss_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// The highest resident memory this process ever had, in bytes, where the platform reports it.
pub fn peak_rss_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// How many tasks of the whole machine wanted a processor over the last minute, where the platform reports it.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg")
        .ok()?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_cpu_and_memory() {
        assert!(cpu_seconds().unwrap() >= 0.0);
        assert!(rss_bytes().unwrap() > 100_000);
        assert!(peak_rss_bytes().unwrap() >= rss_bytes().unwrap() / 2);
    }
}

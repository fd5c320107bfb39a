//! Messages on standard error, which may be closed.

/// Like `eprintln!`, but without a panic if standard error is closed.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($part)*);
    }};
}

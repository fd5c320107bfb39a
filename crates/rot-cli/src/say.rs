//! One line on standard error; when that is gone, there is no one to tell.

/// Like `eprintln!`, without its panic.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($part)*);
    }};
}

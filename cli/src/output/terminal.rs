//! How wide the terminal is, if it is one.

use std::io::IsTerminal;
use std::os::fd::AsFd;

pub(crate) fn stdout_width() -> Option<u16> {
    width_of(std::io::stdout())
}

pub(crate) fn stderr_width() -> Option<u16> {
    width_of(std::io::stderr())
}

fn width_of(stream: impl AsFd + IsTerminal) -> Option<u16> {
    if !stream.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(stream).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

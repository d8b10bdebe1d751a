//! Colour, where a person looks at a terminal and has not asked for none.

use std::io::IsTerminal;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    coloured: bool,
}

pub(crate) fn of_stdout() -> Style {
    Style { coloured: std::io::stdout().is_terminal() && wanted() }
}

pub(crate) fn of_stderr() -> Style {
    Style { coloured: std::io::stderr().is_terminal() && wanted() }
}

fn wanted() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

impl Style {
    pub(crate) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn doubtful(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

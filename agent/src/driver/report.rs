//! Says in one line how a command failed. The whole output is in the log file.

use std::collections::VecDeque;

use motorpool_domain::runner::TaskOutcome;
use motorpool_domain::text::visible;

use crate::work::Outcome;

const OUTPUT_CHARS: usize = 400;

pub(super) fn outcome(outcome: &Outcome) -> TaskOutcome {
    if outcome.succeeded() { TaskOutcome::Done } else { TaskOutcome::Failed { why: one_line(outcome) } }
}

pub(super) fn one_line(outcome: &Outcome) -> String {
    let Outcome { end, output, left_behind } = outcome;
    let mut line = format!("it {end}");
    if *left_behind > 0 {
        line.push_str(&format!(", and {left_behind} of its processes could not be killed"));
    }
    let lines: Vec<&str> = output.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !lines.is_empty() {
        line.push_str(": ");
        line.push_str(&last_chars(&lines.join(" | ")));
    }
    visible(&line)
}

fn last_chars(text: &str) -> String {
    let mut last: VecDeque<char> = VecDeque::with_capacity(OUTPUT_CHARS);
    for c in text.chars() {
        if last.len() == OUTPUT_CHARS {
            last.pop_front();
        }
        last.push_back(c);
    }
    let cut = text.chars().nth(OUTPUT_CHARS).is_some();
    cut.then_some('…').into_iter().chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{End, OutputTail};

    fn failed(text: &str, left_behind: usize) -> Outcome {
        let output = OutputTail { text: text.to_owned(), cut_bytes: 0 };
        Outcome { end: End::Exited { code: 3 }, output, left_behind }
    }

    #[test]
    fn a_failure_is_one_short_line_with_the_end_of_the_output() {
        assert_eq!(one_line(&failed("a\n\n b\x1b[0m\n", 0)), "it ended with exit code 3: a | b␛[0m");
        assert_eq!(
            one_line(&failed("", 2)),
            "it ended with exit code 3, and 2 of its processes could not be killed"
        );
        let long = one_line(&failed(&format!("{}\nthe end", "ä".repeat(2_000)), 0));
        assert!(
            long.ends_with("ä | the end") && long.contains(": …ä") && long.chars().count() < 500,
            "{long}"
        );
    }

    #[test]
    fn a_command_that_left_processes_behind_did_not_succeed() {
        let unclean = Outcome { end: End::Exited { code: 0 }, ..failed("", 1) };
        assert!(matches!(outcome(&unclean), TaskOutcome::Failed { .. }));
        assert_eq!(outcome(&Outcome { left_behind: 0, ..unclean }), TaskOutcome::Done);
    }
}

//! The demo's timeline on stdout: when each step happened, counted from the start.

use crate::clock::Stopwatch;

#[derive(Debug)]
pub(super) struct Timeline(Stopwatch);

#[expect(clippy::print_stdout, reason = "the timeline is what the demo prints")]
impl Timeline {
    pub(super) fn start() -> Self {
        Self(Stopwatch::start())
    }

    pub(super) fn event(&self, what: &str) {
        println!("{:>7.2} s  {what}", self.0.elapsed().as_secs_f64());
    }

    pub(super) fn note(&self, what: &str) {
        println!("           {what}");
    }

    pub(super) fn close(&self) {
        println!("every step happened, in {:.1} s", self.0.elapsed().as_secs_f64());
    }
}

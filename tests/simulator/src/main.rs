//! Runs seeds of the simulator, says which faults fired, and ends at the first seed that breaks an invariant, with its story.
//! `cargo xtask soak` calls it.

use motorpool_simulator::{Fired, Setting, run, run_traced, story_of};
use std::process::ExitCode;

/// How often it says how far it is.
const EVERY: u64 = 50;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let settings = [Setting::Embedded, Setting::Crowded, Setting::Jobs];
    let asked = settings.into_iter().find(|setting| setting.option().is_some_and(has));
    let setting = asked.unwrap_or(Setting::Claims);
    let (seeds, from) = (number("--seeds").unwrap_or(100), number("--from").unwrap_or(1));
    if has("--trace") {
        println!("{}", run_traced(from, setting).trace);
        println!("{}", story_of(from, setting));
        return ExitCode::SUCCESS;
    }
    match soak(from, seeds, setting, has("--all")) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// How many seeds failed. `all`: goes on after the first, and tells each in a line.
fn soak(from: u64, seeds: u64, setting: Setting, all: bool) -> u64 {
    let mut fired = Fired::default();
    let (mut events, mut failed) = (0, 0);
    for seed in from..from + seeds {
        let run = run(seed, setting);
        fired.add(&run.fired);
        events += run.events;
        let done = seed - from + 1;
        if let Some(violation) = run.violation {
            failed += 1;
            println!("seed {seed} (after {done}): {violation}");
            if !all {
                println!("{}", story_of(seed, setting));
                break;
            }
        }
        if done.is_multiple_of(EVERY) && done < seeds {
            eprintln!("{done} of {seeds} seeds, {events} events, {failed} failed");
        }
    }
    println!("{fired}  {events} events; {failed} seeds failed");
    failed
}

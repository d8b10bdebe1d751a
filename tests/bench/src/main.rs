//! The benchmarks of `cargo xtask bench`: each measures ours and its floor in one run, on one machine, and prints one JSON object a
//! line: "name", figures, and "ratio", our cost by the floor's. Times alone mean little; ratios travel.

mod caller;
mod checkpoint;
mod claim;
mod clock;
mod flood;
mod floor;
mod function;
mod memory;
mod pools;
mod refresh;
mod samples;
mod sync;

use anyhow::{Result, bail};
use serde_json::Value;

const NAMES: [&str; 6] = ["claim", "checkpoint", "sync", "refresh", "flood", "function"];

/// On one thread: what is measured has the other core to itself, and no time is spent on waking threads of the load generator.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = asked.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("there is no benchmark {unknown}; there are {}", NAMES.join(", "));
    }
    for name in NAMES.iter().filter(|name| asked.is_empty() || asked.iter().any(|asked| asked == *name)) {
        eprintln!("--- {name}");
        match *name {
            "claim" => claim::run().await?,
            "checkpoint" => checkpoint::run().await?,
            "sync" => sync::run().await?,
            "refresh" => refresh::run().await?,
            "flood" => flood::run().await?,
            _ => function::run().await?,
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn report(figures: &Value) {
    println!("{figures}");
}

//! A thousand seeds of two simulated hours each, ten more on the embedded engine; a crash at every call in turn; that the same seed gives
//! the same trace; and that every fault fired. `SEED=7 cargo test -p motorpool-simulator --test simulation replay -- --nocapture` tells what one seed did.

use motorpool_simulator::{
    Crash, Fault, Fired, Setting, run_all, run_crashing, run_traced, story_of, story_of_crash,
};

const SEEDS_A_PART: u64 = 125;

/// One part of the seeds in memory: no invariant breaks, and every fault fires.
fn part(nth: u64) {
    let first = nth * SEEDS_A_PART + 1;
    let (fired, failure) = run_all(first..first + SEEDS_A_PART, Setting::Claims);
    assert!(failure.is_none(), "\n{}", failure.unwrap_or_default());
    let of_claims: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| !fault.is_of_jobs()).collect();
    all_fired(&fired, &of_claims);
}

fn all_fired(fired: &Fired, which: &[Fault]) {
    let never: Vec<_> =
        which.iter().filter(|fault| fired.of(**fault) == 0).map(|fault| fault.title()).collect();
    assert!(never.is_empty(), "these faults never fired: {never:?}\n{fired}");
}

#[test]
fn seeds_1_to_125() {
    part(0);
}

#[test]
fn seeds_126_to_250() {
    part(1);
}

#[test]
fn seeds_251_to_375() {
    part(2);
}

#[test]
fn seeds_376_to_500() {
    part(3);
}

#[test]
fn seeds_501_to_625() {
    part(4);
}

#[test]
fn seeds_626_to_750() {
    part(5);
}

#[test]
fn seeds_751_to_875() {
    part(6);
}

#[test]
fn seeds_876_to_1000() {
    part(7);
}

/// Invariant 34 is checked at every write in all seeds; here teams of different appetites ask for more than there is, so that somebody always waits.
fn crowded(seeds: std::ops::RangeInclusive<u64>) {
    let (fired, failure) = run_all(seeds, Setting::Crowded);
    assert!(failure.is_none(), "\n{}", failure.unwrap_or_default());
    all_fired(&fired, &[Fault::FirstShareInTurn, Fault::IndexLags, Fault::RefreshRacesClaim]);
}

#[test]
fn inv_34_crowded_seeds_1_to_100() {
    crowded(1..=100);
}

#[test]
fn inv_34_crowded_seeds_101_to_200() {
    crowded(101..=200);
}

#[test]
fn inv_34_crowded_seeds_201_to_300() {
    crowded(201..=300);
}

/// Two CI systems that hand out jobs by themselves, and machines that are reset after each: all that is said of checkpoints is checked at every write and
/// at every task of a machine's.
fn jobs(seeds: std::ops::RangeInclusive<u64>) {
    let (fired, failure) = run_all(seeds, Setting::Jobs);
    assert!(failure.is_none(), "\n{}", failure.unwrap_or_default());
    let of_jobs: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| fault.is_of_jobs()).collect();
    all_fired(&fired, &of_jobs);
    let of_all = [Fault::CrashBeforeCall, Fault::CrashAfterCall, Fault::AnswerLostRepeated, Fault::LateWrite];
    all_fired(&fired, &of_all);
    all_fired(&fired, &[Fault::CiDown, Fault::RegistrationAnswerLost]);
}

#[test]
fn inv_11_12_13_21_26_27_29_30_jobs_seeds_1_to_125() {
    jobs(1..=125);
}

#[test]
fn inv_11_12_13_21_26_27_29_30_jobs_seeds_126_to_250() {
    jobs(126..=250);
}

#[test]
fn inv_11_12_13_21_26_27_29_30_jobs_seeds_251_to_375() {
    jobs(251..=375);
}

#[test]
fn inv_11_12_13_21_26_27_29_30_jobs_seeds_376_to_500() {
    jobs(376..=500);
}

/// A seed that found a bug of ours, which is planted again in `tests/planted`.
fn once_failed(seed: u64) {
    let (_, failure) = run_all([seed], Setting::Claims);
    assert!(failure.is_none(), "\n{}", failure.unwrap_or_default());
}

#[test]
fn inv_15_seed_1_a_repeated_call_is_the_one_that_is_written_though_some_of_its_runners_moved_on() {
    once_failed(1);
}

#[test]
fn fault_12_seed_1_a_runner_whose_machine_was_to_go_and_did_not_ends_with_its_claim() {
    once_failed(1);
}

#[test]
fn fault_11_seed_2_a_launch_is_not_given_up_when_the_provider_does_not_say_what_else_it_has() {
    once_failed(2);
}

#[test]
fn inv_17_seed_122_a_launch_that_another_plane_took_further_is_not_given_up() {
    once_failed(122);
}

#[test]
fn inv_07_seed_1_a_repeated_request_is_the_same_though_the_pool_allows_another_time_by_now() {
    once_failed(1);
}

#[test]
fn inv_18_seed_101_another_attempt_to_clean_moves_no_deadline_back() {
    once_failed(101);
}

/// Invariant 25 is checked here as well: every write is made to a ledger in memory too, and both must answer alike.
fn embedded(seeds: std::ops::RangeInclusive<u64>) {
    let (fired, failure) = run_all(seeds, Setting::Embedded);
    assert!(failure.is_none(), "\n{}", failure.unwrap_or_default());
    let writes =
        [Fault::LedgerThrottled, Fault::AnswerLostError, Fault::AnswerLostRepeated, Fault::CrashBeforeCall];
    all_fired(&fired, &writes);
}

#[test]
fn inv_25_seeds_1_to_5_on_the_embedded_engine() {
    embedded(1..=5);
}

#[test]
fn inv_25_seeds_6_to_10_on_the_embedded_engine() {
    embedded(6..=10);
}

#[test]
fn inv_22_the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [1, 2, 3] {
        let (one, two) = (run_traced(seed, Setting::Claims), run_traced(seed, Setting::Claims));
        assert!(!one.trace.is_empty());
        assert!(
            one.trace == two.trace,
            "seed {seed} differs from itself at {:?}",
            first_difference(&one.trace, &two.trace)
        );
        assert_eq!(one.fired, two.fired);
    }
    let (one, two) = (run_traced(1, Setting::Embedded), run_traced(1, Setting::Embedded));
    assert!(
        one.trace == two.trace,
        "seed 1 differs on the embedded engine at {:?}",
        first_difference(&one.trace, &two.trace)
    );
}

fn first_difference<'a>(one: &'a str, two: &'a str) -> Option<(&'a str, &'a str)> {
    one.lines().zip(two.lines()).find(|(one, two)| one != two)
}

#[test]
fn replay_the_seed_of_the_environment() {
    let Some(seed) = std::env::var("SEED").ok().and_then(|text| text.parse().ok()) else { return };
    let setting = match std::env::var("SETTING").as_deref() {
        Ok("embedded") => Setting::Embedded,
        Ok("crowded") => Setting::Crowded,
        Ok("jobs") => Setting::Jobs,
        Ok(_) | Err(_) => Setting::Claims,
    };
    let story = story_of(seed, setting);
    println!("{story}");
}

/// The most calls that a crash is tried at: there are fewer of provision, and what refresh does later is the same over and over.
const MOST_CALLS: u64 = 150;
/// In how many worlds: what was under way at the crash arrives in some of them.
const WORLDS: u64 = 3;

/// A crash at every call in turn, until there are no more; each must leave nothing behind.
fn crash_at_every(at: impl Fn(u64) -> Crash) -> u64 {
    let mut tried = 0;
    for seed in 1..=WORLDS {
        for nth in 1..=MOST_CALLS {
            let Some(run) = run_crashing(seed, at(nth)) else { break };
            assert!(run.violation.is_none(), "\n{}", story_of_crash(seed, at(nth)));
            tried += 1;
        }
    }
    tried
}

#[test]
fn fault_03_a_crash_at_every_call_of_provision() {
    let tried = crash_at_every(Crash::Provision);
    assert!(tried >= 20 * WORLDS, "only {tried} crashes were tried");
}

#[test]
fn fault_03_a_crash_at_every_call_of_the_refresh_that_takes_up_a_launch_not_made() {
    let tried = crash_at_every(Crash::Refresh);
    assert!(tried >= MOST_CALLS, "only {tried} crashes were tried");
}

#[test]
fn fault_03_a_crash_at_every_call_of_the_refresh_that_takes_up_a_launch_not_heard_of() {
    let tried = crash_at_every(Crash::RefreshAfterLaunch);
    assert!(tried >= MOST_CALLS, "only {tried} crashes were tried");
}

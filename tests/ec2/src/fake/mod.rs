//! `FakeEc2`: EC2 at the SDK's HTTP layer, in memory, on the test's clock. It speaks the query protocol, honours ClientToken, and is as short of
//! capacity, as throttled and as unreliable as the test says. It knows a small catalogue (`catalogue`), and nothing of motorpool but two tags in
//! [`Instance::runner`].
//!
//! - `FakeEc2::new(clock)`, then `fake.backend("0a1b2c").await`: an `Ec2Backend` on it; a new one is a control plane begun anew.
//! - `fake.set_capacity("c6i.large", "us-east-1a", Usage::Spot, 2)`: two more, then InsufficientInstanceCapacity.
//! - `fake.throttle(7, 500)`: about half of all calls, by the seed 7.
//! - `fake.lose_answers("RunInstances", 3, Loss::Cut)`: made, but the caller never hears of it.
//! - `fake.lag(7, Duration::from_secs(90))`: listings that are up to 90 s behind, and go back, by the seed 7.
//! - `fake.on_call(hook)`: a future that never ends is a crash at that point.
//! - Turning the clock: pending → running, shutting-down → terminated.
//! - `fake.most_alive()`, `fake.calls()`, `fake.throttled()`, `fake.lagged()`, `fake.tokens()`, `fake.requests()`: what came of
//!   it.

pub mod catalogue;
mod connector;
mod controls;
mod faults;
mod ground;
mod instances;
mod lag;
mod query;
mod run;
mod world;
mod xml;

pub use faults::Loss;
pub use lag::Lagged;
pub use query::Query;
pub use world::{Ending, Instance, State};

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_types::SdkConfig;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use faults::{Fate, Faults, THROTTLED};
use futures_util::future::BoxFuture;
use lag::Lag;
use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::{RunnerId, Timestamp};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use world::World;
use xml::Xml;

/// Cheap to clone: all clones are one EC2.
#[derive(Clone)]
pub struct FakeEc2 {
    settings: Arc<FakeSettings>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Clone)]
pub struct FakeSettings {
    pub clock: Arc<dyn Clock>,
    /// From pending to running.
    pub boot: Duration,
    /// From shutting-down to terminated.
    pub shutdown: Duration,
    /// How long a new instance is seen by no other call: EC2's eventual consistency.
    pub visible_after: Duration,
    /// The most on a page, whatever is asked for.
    pub largest_page: usize,
}

#[derive(Default)]
struct Inner {
    world: World,
    faults: Faults,
    lag: Option<Lag>,
    /// The call that began the listing that is being read: its further pages are of the same.
    listing: u64,
    requests: Vec<Request>,
    hook: Option<Hook>,
}

/// Called before and after each call; the call goes on when the future is ready. One that never is, is a crash there: drop the caller.
pub type Hook = Arc<dyn Fn(CallPoint) -> BoxFuture<'static, ()> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPoint {
    /// Counts the calls, from 0; the same on both sides of one.
    pub number: u64,
    pub action: String,
    pub side: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nothing has happened yet.
    Before,
    /// Done, and the answer is on its way.
    After,
}

/// One call as it came, and how it was answered.
#[derive(Debug, Clone)]
pub struct Request {
    pub number: u64,
    pub action: String,
    pub query: Query,
    /// `ok`, `lost`, or an error's code. Empty while it is under way.
    pub outcome: String,
}

impl Request {
    /// Decoded; nothing if it has none.
    pub fn user_data(&self) -> Option<String> {
        String::from_utf8(STANDARD.decode(self.query.get("UserData")?).ok()?).ok()
    }
}

impl FakeEc2 {
    /// Boots in 20 s, shuts down in 30 s, shows everything at once.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with(FakeSettings {
            clock,
            boot: Duration::from_secs(20),
            shutdown: Duration::from_secs(30),
            visible_after: Duration::ZERO,
            largest_page: 1_000,
        })
    }

    pub fn with(settings: FakeSettings) -> Self {
        Self { settings: Arc::new(settings), inner: Arc::default() }
    }

    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(self.clone())
    }

    /// What a client of this EC2 is made of.
    pub async fn config(&self) -> SdkConfig {
        let config = motorpool_aws::emulated("http://ec2.invalid").await;
        config.into_builder().http_client(self.http_client()).build()
    }

    /// A backend of this installation, with nothing cached.
    pub async fn backend(&self, installation: &str) -> Ec2Backend {
        let settings = Ec2Config {
            installation: installation.to_owned(),
            server_url: "https://pool.example:8443".to_owned(),
            ca_pem: None,
            clock: Arc::clone(&self.settings.clock),
        };
        Ec2Backend::new(&self.config().await, settings)
    }

    /// All that were ever made, in the order in which they were, with their present state.
    pub fn instances(&self) -> Vec<(Instance, State)> {
        let times = self.times();
        let inner = self.lock();
        inner.world.instances.values().map(|instance| (instance.clone(), times.state(instance))).collect()
    }

    /// The instances of a runner that are not terminated.
    pub fn instances_of(&self, runner: &RunnerId) -> Vec<Instance> {
        let alive = self.instances().into_iter().filter(|(_, state)| *state != State::Terminated);
        alive
            .map(|(instance, _)| instance)
            .filter(|instance| instance.runner().as_ref() == Some(runner))
            .collect()
    }

    /// How many are not terminated: also what shuts down still counts.
    pub fn alive(&self) -> usize {
        let now = self.now();
        self.lock().world.alive(now)
    }

    /// The most that were ever alive at once.
    pub fn most_alive(&self) -> usize {
        self.lock().world.most_alive
    }

    /// The instances that each ClientToken made.
    pub fn tokens(&self) -> BTreeMap<String, Vec<String>> {
        self.lock().world.tokens.iter().map(|(token, made)| (token.clone(), made.instances.clone())).collect()
    }

    /// How often each action was called, whatever came of it.
    pub fn calls(&self) -> BTreeMap<String, u32> {
        let mut calls = BTreeMap::new();
        for request in &self.lock().requests {
            *calls.entry(request.action.clone()).or_default() += 1;
        }
        calls
    }

    /// How many calls were answered with RequestLimitExceeded.
    pub fn throttled(&self) -> usize {
        self.lock().requests.iter().filter(|request| request.outcome == THROTTLED).count()
    }

    /// How often listings were behind, and went back.
    pub fn lagged(&self) -> Lagged {
        self.lock().world.listings.lagged
    }

    /// Every call, in its order.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// The calls of one action, in their order.
    pub fn requests_of(&self, action: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.action == action).collect()
    }

    async fn serve(&self, body: &[u8]) -> Reply {
        let query = Query::parse(body);
        let action = query.get("Action").unwrap_or_default().to_owned();
        let number = {
            let mut inner = self.lock();
            let number = u64::try_from(inner.requests.len()).unwrap_or(u64::MAX);
            let request =
                Request { number, action: action.clone(), query: query.clone(), outcome: String::new() };
            inner.requests.push(request);
            number
        };
        self.at(CallPoint { number, action: action.clone(), side: Side::Before }).await;
        let reply = self.act(&action, &query, number);
        self.at(CallPoint { number, action, side: Side::After }).await;
        reply
    }

    async fn at(&self, point: CallPoint) {
        let hook = self.lock().hook.clone();
        if let Some(hook) = hook {
            hook(point).await;
        }
    }

    fn act(&self, action: &str, query: &Query, number: u64) -> Reply {
        let largest_page = self.settings.largest_page;
        let mut inner = self.lock();
        if query.get("NextToken").is_none() {
            inner.listing = number;
        }
        let times = Times { lag: inner.lag, listing: inner.listing, ..self.times() };
        let (lost, outcome) = match inner.faults.fate(action, number) {
            Fate::Refused { code, message, status } => (None, Err(Refusal { code, message, status })),
            Fate::Served => (None, answer(&mut inner.world, action, query, &times, largest_page)),
            Fate::Lost(loss) => (Some(loss), answer(&mut inner.world, action, query, &times, largest_page)),
        };
        let (told, status, body) = match outcome {
            Ok(Answer(inside)) => ("ok".to_owned(), 200, inside.answer(action)),
            Err(Refusal { code, message, status }) => {
                let body = xml::error(&code, &message);
                (code, status, body)
            }
        };
        if let Some(request) = usize::try_from(number).ok().and_then(|at| inner.requests.get_mut(at)) {
            request.outcome = if lost.is_some() { "lost".to_owned() } else { told };
        }
        Reply { status, body, lost }
    }

    fn now(&self) -> Timestamp {
        self.settings.clock.now()
    }

    fn times(&self) -> Times {
        let FakeSettings { clock, boot, shutdown, visible_after, largest_page: _ } = &*self.settings;
        Times {
            now: clock.now(),
            boot: *boot,
            shutdown: *shutdown,
            visible_after: *visible_after,
            lag: None,
            listing: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FakeEc2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEc2").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn answer(
    world: &mut World,
    action: &str,
    query: &Query,
    times: &Times,
    largest_page: usize,
) -> Result<Answer, Refusal> {
    match action {
        "RunInstances" => run::run_instances(world, query, times),
        "DescribeInstances" => instances::describe(world, query, times, largest_page),
        "TerminateInstances" => instances::terminate(world, query, times),
        "CreateTags" => instances::create_tags(world, query, times),
        "DescribeInstanceTypes" => catalogue::instance_types(query, largest_page),
        "DescribeInstanceTypeOfferings" => catalogue::offerings(query, largest_page),
        "DescribeSpotPriceHistory" => {
            catalogue::spot_prices(query, &instances::written(times.now), largest_page)
        }
        "DescribeSubnets" => catalogue::subnets(query),
        "DescribeImages" => catalogue::images(query),
        "DescribeSecurityGroups" => catalogue::groups(query),
        _ => Err(Refusal::new("InvalidAction", format!("The action {action} is not valid for this fake"))),
    }
}

/// The time of a call, and what else a state follows from.
#[derive(Debug)]
struct Times {
    now: Timestamp,
    boot: Duration,
    shutdown: Duration,
    visible_after: Duration,
    lag: Option<Lag>,
    listing: u64,
}

impl Times {
    fn state(&self, instance: &Instance) -> State {
        instance.state(self.now, self.boot)
    }

    /// The state that the call sees it in, if it sees it.
    fn seen(&self, instance: &Instance) -> Option<State> {
        let as_of = |lag: Lag| lag.as_of(self.listing, &instance.id, self.now);
        self.as_of(self.lag.map_or(self.now, as_of), instance)
    }

    /// The state that a listing without a lag would show, if it is one.
    fn is(&self, instance: &Instance) -> Option<State> {
        self.as_of(self.now, instance)
    }

    fn as_of(&self, at: Timestamp, instance: &Instance) -> Option<State> {
        let shown = instance.made_at.after(self.visible_after) <= at && !instance.forgotten(at);
        shown.then(|| instance.state(at, self.boot))
    }
}

#[derive(Debug)]
struct Answer(Xml);

#[derive(Debug)]
struct Refusal {
    code: String,
    message: String,
    status: u16,
}

impl Refusal {
    fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), status: 400 }
    }

    fn no_image(id: &str) -> Self {
        Self::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist"))
    }

    fn no_group(id: &str) -> Self {
        Self::new("InvalidGroup.NotFound", format!("The security group '{id}' does not exist"))
    }

    fn no_subnet(id: &str) -> Self {
        Self::new("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist"))
    }
}

struct Reply {
    status: u16,
    body: String,
    lost: Option<Loss>,
}

//! For tests of the whole agent: a control plane that wants one thing at a time, over real HTTP, and the real binary.

mod checkpoints;
mod registration;

pub(crate) use checkpoints::{CHECKPOINT, HookCall, HookFailure};
pub(crate) use registration::{CI_CANARY, jit_config, jit_files};

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use motorpool_agent::clock::BootClock;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::{StateName, TaskOutcome};
use motorpool_domain::{Epoch, Label, PoolName, TaskId};
use motorpool_wire::agent::{
    BootstrapAnswer, BootstrapRequest, Protocol, RegistrationRequest, SyncAnswer, SyncRequest, TaskKind,
    TaskOrder,
};
use motorpool_wire::error::{ErrorBody, ErrorCode, ErrorEnvelope};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

const OVERALL: Duration = Duration::from_secs(60);
pub(crate) const SECRET: &str = "canary-secret-4711";

/// What the control plane wants, and how it answers.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) goal: Goal,
    pub(crate) prepare: Option<String>,
    pub(crate) register: Option<String>,
    pub(crate) run: Option<String>,
    pub(crate) ci: Option<CiSystem>,
    pub(crate) deregister: Option<String>,
    pub(crate) kept: bool,
    pub(crate) threshold_in_ms: Option<u64>,
    pub(crate) fence_in_ms: Option<u64>,
    /// Its agent is to change its token, once.
    pub(crate) token_due: bool,
    /// Calls for hooks are seen, and not answered yet.
    pub(crate) hold_hooks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Prepared and registered.
    Run,
    /// Deregistered and cleaned.
    Clean,
    End,
    /// Every call is answered "gone".
    Gone,
    /// Every call fails at once.
    Outage,
    /// No call is answered.
    Silence,
}

impl Plan {
    pub(crate) fn run(program: &str) -> Self {
        Self {
            goal: Goal::Run,
            prepare: None,
            register: None,
            run: Some(program.to_owned()),
            ci: None,
            deregister: None,
            kept: false,
            threshold_in_ms: Some(600_000),
            fence_in_ms: Some(600_000),
            token_due: false,
            hold_hooks: false,
        }
    }

    /// With the CI system's own program.
    pub(crate) fn ci(system: CiSystem) -> Self {
        Self { run: None, ci: Some(system), ..Self::run("") }
    }

    fn next(&self, request: &SyncRequest) -> SyncAnswer {
        let label = Label::parse("motorpool-c-1").unwrap();
        let order = |name: &str, kind| {
            let id = TaskId::parse(format!("1-{name}-1")).unwrap();
            Some(TaskOrder { id, kind, timeout_ms: 50_000, env: Default::default() })
        };
        let done = |name| outcome(request, name) == Some(&TaskOutcome::Done);
        let (prepare, register) = (self.prepare.clone(), self.register.clone());
        let (run, deregister) = (self.run.clone(), self.deregister.clone());
        let task = match self.goal {
            Goal::Run if !done("prepare") => order("prepare", TaskKind::Prepare { script: prepare }),
            Goal::Run if request.registered.is_none() => {
                order("register", TaskKind::Register { label, script: register, run, ci: self.ci })
            }
            Goal::Clean if request.registered.is_some() => {
                order("deregister", TaskKind::Deregister { label, script: deregister })
            }
            Goal::Clean if !done("cleanup") => order("cleanup", TaskKind::Cleanup { script: None }),
            Goal::Run | Goal::Clean | Goal::End | Goal::Gone | Goal::Outage | Goal::Silence => None,
        };
        SyncAnswer {
            protocol: Protocol::OURS,
            epoch: Epoch(1),
            state: StateName::Running,
            task,
            end: self.goal == Goal::End,
            kept: self.kept,
            threshold_in_ms: self.threshold_in_ms,
            fence_in_ms: self.fence_in_ms,
            next_sync_in_ms: 500,
            token_due: false,
            token_taken: false,
        }
    }
}

pub(crate) fn outcome<'a>(request: &'a SyncRequest, name: &str) -> Option<&'a TaskOutcome> {
    let id = format!("1-{name}-1");
    request.results.iter().find(|result| result.task.as_str() == id).map(|result| &result.outcome)
}

/// What the control plane saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) bootstraps: Vec<BootstrapRequest>,
    pub(crate) syncs: Vec<SyncRequest>,
    pub(crate) authorizations: Vec<String>,
    pub(crate) registrations: Vec<RegistrationRequest>,
    /// The answers to the first bootstraps, instead of success. The call counts all the same.
    pub(crate) bootstrap_failures: Vec<StatusCode>,
    /// The same for registrations.
    pub(crate) registration_failures: Vec<StatusCode>,
    pub(crate) hook_calls: Vec<HookCall>,
    /// What the next calls for hooks meet, the last one first.
    pub(crate) hook_failures: Vec<HookFailure>,
    /// An agent has changed its token.
    token_taken: bool,
}

#[derive(Clone)]
struct Plane {
    plan: watch::Sender<Plan>,
    seen: Arc<Mutex<Seen>>,
}

impl Plane {
    fn routes(&self) -> Router {
        Router::new()
            .route("/api/v1/agent/bootstrap", post(bootstrap))
            .route("/api/v1/agent/sync", post(sync))
            .route("/api/v1/agent/registration", post(registration::registration))
            .merge(checkpoints::routes())
            .with_state(self.clone())
    }
}

async fn bootstrap(State(plane): State<Plane>, Json(request): Json<BootstrapRequest>) -> Response {
    let mut seen = plane.seen.lock().unwrap();
    seen.bootstraps.push(request);
    match seen.bootstrap_failures.pop() {
        Some(status) => refusal(status),
        None => {
            Json(BootstrapAnswer { pool: PoolName::parse("small").unwrap(), epoch: Epoch(1) }).into_response()
        }
    }
}

/// A long poll: it is held until there is something to do, or the time is over.
async fn sync(State(plane): State<Plane>, headers: HeaderMap, Json(request): Json<SyncRequest>) -> Response {
    let token_taken = {
        let mut seen = plane.seen.lock().unwrap();
        seen.syncs.push(request.clone());
        seen.authorizations.push(headers["authorization"].to_str().unwrap().to_owned());
        seen.token_taken |= request.next_token_sha256.is_some();
        seen.token_taken
    };
    let mut plan = plane.plan.subscribe();
    let wait_until = BootClock.now() + Duration::from_millis(request.wait_ms);
    loop {
        let now = plan.borrow_and_update().clone();
        if now.goal == Goal::Silence {
            std::future::pending::<()>().await;
        }
        if now.goal == Goal::Gone {
            return refusal(StatusCode::GONE);
        }
        if now.goal == Goal::Outage {
            return refusal(StatusCode::SERVICE_UNAVAILABLE);
        }
        let answer = SyncAnswer {
            token_due: now.token_due && !token_taken,
            token_taken: request.next_token_sha256.is_some(),
            ..now.next(&request)
        };
        let news = answer.task.as_ref().is_some_and(|task| request.busy.as_ref() != Some(&task.id));
        if news || answer.end || answer.token_due || answer.token_taken || wait_until.passed(BootClock.now())
        {
            return Json(answer).into_response();
        }
        tokio::select! {
            _changed = plan.changed() => {}
            () = BootClock.sleep_until(wait_until) => {}
        }
    }
}

fn refusal(status: StatusCode) -> Response {
    let message = "not this one".to_owned();
    let error = ErrorBody { code: ErrorCode::Gone, message, hint: "ask somebody".to_owned() };
    (status, Json(ErrorEnvelope { error })).into_response()
}

/// One runner: its control plane, its directory, and its agent.
pub(crate) struct Bench {
    dir: TempDir,
    address: String,
    plane: Plane,
    pub(crate) agent: Option<Child>,
}

impl Bench {
    pub(crate) async fn new(plan: Plan) -> Self {
        let plane = Plane { plan: watch::channel(plan).0, seen: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let routes = plane.routes();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self::with(plane, address)
    }

    /// Over TLS, with a certificate of its own authority; `ca.pem` is the authority's.
    pub(crate) async fn over_tls(plan: Plan) -> Self {
        let _installed_already = rustls::crypto::ring::default_provider().install_default();
        let plane = Plane { plan: watch::channel(plan).0, seen: Arc::default() };
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let ca_pem = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = Issuer::new(authority, authority_key);
        let mut server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let pem = server.signed_by(&key, &issuer).unwrap().pem();
        let tls = RustlsConfig::from_pem(pem.into_bytes(), key.serialize_pem().into_bytes()).await.unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let serving = axum_server::from_tcp_rustls(listener, tls).unwrap();
        tokio::spawn(serving.serve(plane.routes().into_make_service()));
        let bench = Self::with(plane, address);
        fs::write(bench.path("ca.pem"), ca_pem).unwrap();
        bench
    }

    fn with(plane: Plane, address: String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bench = Self { dir, address, plane, agent: None };
        bench.give_secret(SECRET, 0o600);
        bench
    }

    /// Writes the agent's secret file, with this mode.
    pub(crate) fn give_secret(&self, secret: &str, mode: u32) {
        let path = self.path("secret");
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// With its agent, registered and at work: `up` is written by the runner program.
    pub(crate) async fn up(plan: Plan) -> Self {
        let mut bench = Self::new(plan).await;
        bench.start_agent(&[]);
        bench.until_file("agent/work/up").await;
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn start_agent(&mut self, more: &[&str]) {
        let who = ["--runner", "r-1"];
        self.start_agent_as(&[&who, more].concat());
    }

    pub(crate) fn start_agent_as(&mut self, args: &[&str]) {
        // Where the tests are root's. What holds jobs then has tests of its own.
        let as_root = rustix::process::geteuid().is_root().then_some("--work-as-root");
        self.start_agent_with(&[args, as_root.as_slice()].concat());
    }

    /// Its jobs have a user of their own.
    pub(crate) fn start_agent_for_user(&mut self, uid: u32) {
        self.start_agent_with(&["--runner", "r-1", "--job-uid", &uid.to_string()]);
    }

    fn start_agent_with(&mut self, args: &[&str]) {
        let end_host = format!("echo ended > '{}'", self.path("host-ended").display());
        let log = File::options().create(true).append(true).open(self.path("agent.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_motorpool-agent"))
            .args(["run", "--server", &self.address, "--end-host-cmd", &end_host])
            .arg("--dir")
            .arg(self.path("agent"))
            .arg("--secret-file")
            .arg(self.path("secret"))
            .arg("--program-dir")
            .arg(self.path("program"))
            .args(args)
            .env("RUST_LOG", "trace")
            // Nobody is there: whoever goes through a proxy fails.
            .env("http_proxy", "http://127.0.0.1:1")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.agent = Some(child);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Plan)) {
        self.plane.plan.send_modify(change);
    }

    pub(crate) fn want(&self, goal: Goal) {
        self.change(|plan| plan.goal = goal);
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.plane.seen.lock().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("agent.log")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.agent.as_ref().unwrap()), signal).unwrap();
    }

    pub(crate) fn agent_runs(&mut self) -> bool {
        self.agent.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    pub(crate) async fn agent_exit(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().unwrap();
        let mut status = None;
        self.eventually("the agent exits", |_| {
            status = agent.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// The supervisors and everything under them.
    pub(crate) fn work_processes(&self) -> Vec<Pid> {
        let mark = format!("MOTORPOOL_RUNNER_DIR={}\0", self.path("agent").display());
        processes()
            .filter(|(_pid, proc)| file_contains(&proc.join("environ"), &mark))
            .map(|(pid, _)| pid)
            .collect()
    }

    pub(crate) fn supervisors(&self) -> Vec<Pid> {
        let supervises = |pid: &Pid| {
            file_contains(Path::new(&format!("/proc/{pid}/cmdline")), "motorpool-agent\0supervise\0")
        };
        self.work_processes().into_iter().filter(supervises).collect()
    }

    /// What a script that registers must find.
    pub(crate) fn environment(&self) -> Vec<String> {
        let dir = self.path("agent").display().to_string();
        vec![
            "MOTORPOOL_CLAIM=c-1\n".to_owned(),
            "MOTORPOOL_EPOCH=1\n".to_owned(),
            "MOTORPOOL_LABEL=motorpool-c-1\n".to_owned(),
            "MOTORPOOL_POOL=small\n".to_owned(),
            format!("MOTORPOOL_PROGRAM_DIR={}\n", self.path("program").display()),
            "MOTORPOOL_RUNNER=r-1\n".to_owned(),
            format!("MOTORPOOL_RUNNER_DIR={dir}\n"),
            format!("MOTORPOOL_SERVER={}\n", self.address),
            format!("MOTORPOOL_SOCKET={dir}/socket/agent.sock\n"),
            format!("MOTORPOOL_WORK_DIR={dir}/work\n"),
        ]
    }

    pub(crate) async fn until_no_work(&self) {
        self.eventually("no work process is left", |bench| bench.work_processes().is_empty()).await;
    }

    pub(crate) async fn until_file(&self, name: &str) {
        self.eventually(&format!("{name} is there"), |bench| bench.path(name).exists()).await;
    }

    pub(crate) async fn until_sync(&self, what: &str, mut holds: impl FnMut(&SyncRequest) -> bool) {
        self.eventually(what, |bench| bench.seen().syncs.last().is_some_and(&mut holds)).await;
    }

    pub(crate) async fn eventually(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let give_up_at = BootClock.now() + OVERALL;
        while !holds(self) {
            let gave_up = give_up_at.passed(BootClock.now());
            assert!(!gave_up, "gave up waiting until {what}; the agent says:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Bench {
    /// A failed test leaves nothing behind either.
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _gone = agent.kill();
            let _reaped = agent.wait();
        }
        for pid in self.work_processes() {
            let _gone = kill_process(pid, Signal::KILL);
        }
    }
}

pub(crate) fn processes() -> impl Iterator<Item = (Pid, PathBuf)> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        Some((pid, entry.path()))
    })
}

pub(crate) fn file_contains(path: &Path, text: &str) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

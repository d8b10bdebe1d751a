//! The command line: every verb, its arguments and its help. What a verb does is in the module of its name.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use motorpool_agent::cli::{AgentArgs, INSECURE_HTTP};
use motorpool_agent::hook::CheckpointArgs;
use motorpool_agent::jobs::UidRange;
use motorpool_domain::runner::StateName;
use motorpool_domain::{PoolName, RunnerId};

mod claims;

pub(crate) use claims::{ClaimArgs, ClaimsArgs, ClaimsVerb, ProvisionArgs, ReleaseArgs, WantArgs, WhyArgs};

/// Every CI job gets a clean, ready machine in seconds; no machine is ever forgotten.
#[derive(Debug, Parser)]
#[command(name = "motorpool", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 server not reachable, \
                        130 interrupted while waiting.")]
pub(crate) struct Cli {
    /// Print the API's own JSON, one document, instead of words and tables; errors too.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How many files an agent and its jobs may have open, where its server may have more.
    #[arg(long, hide = true, value_name = "COUNT")]
    pub(crate) open_files: Option<u64>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the control plane on this host
    Serve(ServeArgs),
    /// Show the whole of it on this machine: a real server, real local runners, one of them killed
    Demo(DemoArgs),
    /// Make this machine a runner: the same agent as motorpool-agent
    Agent(AgentArgs),
    /// List the pools, show one, or define them from a file
    Pools(PoolsArgs),
    /// List, show, add and remove runners
    Runners(RunnersArgs),
    /// Ask for runners, and wait until they are ready
    Provision(ProvisionArgs),
    /// Take one idle runner now, or none
    Claim(ClaimArgs),
    /// Give back what a workflow holds
    Release(ReleaseArgs),
    /// List claims, or show one
    Claims(ClaimsArgs),
    /// Say in plain words what a claim, a checkpoint or a runner waits for, or how it ended
    Why(WhyArgs),
    /// What a job's hooks call on its machine: a checkpoint before the job, its end afterwards
    Checkpoint(CheckpointArgs),
    /// Look at everything that is due, now
    Refresh(RefreshArgs),
    /// Show what happened to a runner, a claim, a pool or a checkpoint: who, what, from, to, why
    Audit(AuditArgs),
    /// List the incidents that people are told of
    Alerts(AlertsArgs),
    /// Copy the embedded ledger of a `serve` on this host, which may be running
    Backup(BackupArgs),
    /// Check the server, the token and the pools, and say what to do
    Doctor(DoctorArgs),
    /// Make a new team token, and the line for it in pools.toml
    Token,
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Write the man pages
    #[command(hide = true)]
    Man(ManArgs),
}

/// Where `serve` keeps its data, and where the operator's verbs on the same host look for the admin token.
pub(crate) const DATA_DIR: &str = "motorpool-data";
pub(crate) const LISTEN: &str = "127.0.0.1:8080";
const SERVER: &str = "http://127.0.0.1:8080";
const CONNECTION: &str = "Connection";

/// How a verb reaches the server. There is no argument for a token itself: every process of the host could read it.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectArgs {
    /// The server's address; without it, this host's own: http://127.0.0.1:8080
    #[arg(long, env = "MOTORPOOL_SERVER", value_name = "URL", global = true, help_heading = CONNECTION)]
    pub(crate) server: Option<String>,
    /// A file that holds the token; else $MOTORPOOL_TOKEN, $MOTORPOOL_ADMIN_TOKEN, or the data directory's admin-token
    #[arg(long, value_name = "FILE", global = true, help_heading = CONNECTION)]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust this certificate authority (PEM) as well
    #[arg(long, env = "MOTORPOOL_CA_FILE", value_name = "FILE", global = true, help_heading = CONNECTION)]
    pub(crate) ca_file: Option<PathBuf>,
    /// The server's data directory, whose admin-token is used when there is no other token; without this argument
    /// motorpool-data, for a server on this host
    #[arg(long, value_name = "DIR", global = true, help_heading = CONNECTION)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Send the token over plain http:// to a host other than this one
    #[arg(long, env = INSECURE_HTTP, value_parser = BoolishValueParser::new(), global = true, help_heading = CONNECTION)]
    pub(crate) insecure_http: bool,
}

impl ConnectArgs {
    pub(crate) fn server(&self) -> &str {
        self.server.as_deref().unwrap_or(SERVER)
    }
}

/// Below what containers and services are given by most systems, and above what people are.
pub(crate) const JOB_UIDS: UidRange = UidRange { first: 50_000, last: 59_999 };

const ON_AWS: &str = "With --ledger dynamodb";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; beyond loopback, with TLS
    #[arg(long, default_value = LISTEN, value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Where to keep the ledger, the admin token and the local runners
    #[arg(long, default_value = DATA_DIR, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// The pools file
    #[arg(long, default_value = "pools.toml", value_name = "FILE")]
    pub(crate) pools: PathBuf,
    /// How agents reach this server, if not at the address it listens on
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// The server's certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Agents meet a proxy's certificate, not that of --tls-cert: it is neither sent to machines nor judged for them
    #[arg(long, requires_all = ["tls_cert", "public_url"])]
    pub(crate) tls_by_proxy: bool,
    /// Listen without TLS beyond loopback: whoever is on the way reads every token
    #[arg(long, env = INSECURE_HTTP, value_parser = BoolishValueParser::new())]
    pub(crate) insecure_http: bool,
    /// How many connections one address may have, a quarter of all at most; agents behind one NAT gateway, or a proxy on another host, share theirs
    #[arg(long, default_value_t = 1_024, value_name = "COUNT")]
    pub(crate) connections_per_address: usize,
    /// The users that jobs of local pools run as, one a runner, where serve is root; they need no names, and nobody else should have them
    #[arg(long, default_value_t = JOB_UIDS, value_name = "FIRST-LAST")]
    pub(crate) job_uids: UidRange,
    /// Run jobs of local pools as root, as serve itself: every job can then read its secrets, and do anything to this host
    #[arg(long)]
    pub(crate) work_as_root: bool,
    /// How log lines are written, on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Where the truth is kept
    #[arg(long, value_enum, default_value_t = LedgerKind::Embedded)]
    pub(crate) ledger: LedgerKind,
    /// The table in DynamoDB; made if it is missing
    #[arg(long, env = "MOTORPOOL_TABLE", default_value = "motorpool", value_name = "NAME", help_heading = ON_AWS)]
    pub(crate) table: String,
    /// What the names of the queues on SQS begin with; each is made when it is missing
    #[arg(long, env = "MOTORPOOL_QUEUE_PREFIX", default_value = "motorpool", value_name = "PREFIX", help_heading = ON_AWS)]
    pub(crate) queue_prefix: String,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Where to write the copy; it must not be there yet
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The data directory of the server
    #[arg(long, default_value = DATA_DIR, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LedgerKind {
    /// In a file in the data directory, for this process alone
    Embedded,
    /// In DynamoDB, with the queues on SQS: any number of serves and functions may share it. Needs $MOTORPOOL_SERVER_SECRET
    #[value(name = "dynamodb")]
    DynamoDb,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the data directory, and say where it is
    #[arg(long)]
    pub(crate) keep: bool,
    /// Show the server's log as well
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Give runners on as they are, which the demo must notice: it shows that its proof can fail
    #[arg(long, hide = true)]
    pub(crate) without_cleaning: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PoolsArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    #[command(subcommand)]
    pub(crate) verb: Option<PoolsVerb>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolsVerb {
    /// Show one pool
    Show {
        /// The pool's name
        pool: PoolName,
    },
    /// Define the pools of a file, which has [pools.NAME] as a pools file has; others stay as they are
    Apply {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Change nothing: say what would be launched where, and at about what price
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunnersArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    #[command(flatten)]
    pub(crate) filter: RunnersFilter,
    #[command(subcommand)]
    pub(crate) verb: Option<RunnersVerb>,
}

#[derive(Debug, Args)]
pub(crate) struct RunnersFilter {
    /// Only this pool's; all pools' if left out
    #[arg(long)]
    pub(crate) pool: Option<PoolName>,
    /// Only those in this state
    #[arg(long, value_parser = state_name)]
    pub(crate) state: Option<StateName>,
    /// Also those that were removed or are gone, which are shown for seven days
    #[arg(long, conflicts_with = "state")]
    pub(crate) all: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunnersVerb {
    /// Show one runner
    Show {
        /// The runner's id
        runner: RunnerId,
    },
    /// Register a machine of your own with a pool; prints its bootstrap secret or its token, once
    Add(AddRunnerArgs),
    /// Say something else of a machine of your own; what is left out stays as it is
    Set(SetRunnerArgs),
    /// Take a runner out of its pool for good; refused while a claim holds it
    Remove {
        /// The runner's id
        runner: RunnerId,
        /// Let its holder finish first
        #[arg(long, conflicts_with = "force")]
        drain: bool,
        /// At once, whoever holds it
        #[arg(long)]
        force: bool,
    },
    /// Let a runner out of quarantine: it is cleaned, and goes back to its pool
    Release {
        /// The runner's id
        runner: RunnerId,
    },
    /// Make a new bootstrap secret, or a new token for a runner that was added with one; prints it, once
    Token {
        /// The runner's id
        runner: RunnerId,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddRunnerArgs {
    /// What the machine will be called, such as mac-01
    pub(crate) runner: RunnerId,
    /// The pool that it joins
    #[arg(long)]
    pub(crate) pool: PoolName,
    /// What kind of machine it is
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) instance_type: Option<String>,
    /// How many CPUs it has
    #[arg(long)]
    pub(crate) cpu: Option<u32>,
    /// How much memory it has, in MB
    #[arg(long)]
    pub(crate) memory_mb: Option<u64>,
    /// A command of this machine's own, in the place of its pool's
    #[arg(long, value_name = "COMMAND")]
    pub(crate) cleanup_cmd: Option<String>,
    /// The same for `reset_cmd`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) reset_cmd: Option<String>,
    /// The same for `readiness_cmd`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) readiness_cmd: Option<String>,
    /// What its CI system knows it by, if it was registered there by hand: GitLab's number, GitHub's or Jenkins' name
    #[arg(long, value_name = "ID")]
    pub(crate) ci_runner: Option<String>,
    /// Print the runner's own token in place of a secret for an agent: for hooks that call the API themselves
    #[arg(long, alias = "token")]
    pub(crate) with_token: bool,
}

/// An empty text removes what the machine has of its own: its pool's holds again.
#[derive(Debug, Args)]
pub(crate) struct SetRunnerArgs {
    /// The runner's id
    pub(crate) runner: RunnerId,
    /// What kind of machine it is
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) instance_type: Option<String>,
    /// How many CPUs it has
    #[arg(long)]
    pub(crate) cpu: Option<u32>,
    /// How much memory it has, in MB
    #[arg(long)]
    pub(crate) memory_mb: Option<u64>,
    /// A command of this machine's own, in the place of its pool's; "" for its pool's
    #[arg(long, value_name = "COMMAND")]
    pub(crate) cleanup_cmd: Option<String>,
    /// The same for `reset_cmd`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) reset_cmd: Option<String>,
    /// The same for `readiness_cmd`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) readiness_cmd: Option<String>,
    /// What its CI system knows it by; "" if it was not registered there by hand
    #[arg(long, value_name = "ID")]
    pub(crate) ci_runner: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RefreshArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Sweep as well: compare with the providers, announce idle runners again, count the slots
    #[arg(long)]
    pub(crate) sweep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// A runner's id, a claim's id (c-…), pool:NAME or checkpoint:NAME
    pub(crate) subject: String,
}

#[derive(Debug, Args)]
pub(crate) struct AlertsArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Also those that are over, which are kept for 30 days
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// Look at this pools file as well, as `serve` of this binary would
    #[arg(long, value_name = "FILE")]
    pub(crate) pools: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory to write to; it is made if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

fn state_name(text: &str) -> Result<StateName, String> {
    StateName::ALL
        .into_iter()
        .find(|state| state.as_str() == text)
        .ok_or_else(|| format!("must be one of {}", StateName::ALL.map(StateName::as_str).join(", ")))
}

//! How names, counts and spans look in the OpenAPI document. Each type here stands in a `value_type` for the type of `domain` with the same
//! meaning, and takes its pattern or its bound from there. None of them is ever made or read.

use crate::agent::{LONGEST_ID, Protocol};
use crate::channel;
use crate::registry;
use motorpool_domain::ci::{CiBinding, CiSystem as Ci};
use motorpool_domain::ids;
use motorpool_domain::pool::{self, Ec2Rules, LARGEST_POOL, LONGEST_LIMIT};
use motorpool_domain::runner;
use motorpool_domain::spec::{self, INSTANCE_TYPE_PATTERN};
use motorpool_domain::text::UNSTEERED_PATTERN;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! described {
    ($($name:ident, $what:literal, $schema:expr;)*) => {$(
        #[doc = $what]
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema.description(Some($what)).into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

described! {
    PoolName, "A pool's name.", text(ids::PoolName::PATTERN).examples(["small"]);
    RunnerId, "A runner's id.", text(ids::RunnerId::PATTERN).examples(["mac-01"]);
    ClaimId, "A claim's id.", text(ids::ClaimId::PATTERN);
    Workflow, "What a workflow calls itself, with its attempt.",
        text(ids::Workflow::PATTERN).examples(["gh-123"]);
    Owner, "A team's name, or `operator`.", text(ids::Owner::PATTERN);
    Label, "The label under which a claim's runners register.", text(ids::Label::PATTERN);
    TaskId, "A task of an agent.", text(ids::TaskId::PATTERN);
    Subject, "A runner's id, a claim's id, `pool:NAME` or `checkpoint:NAME`.", text(&subject_pattern());
    PageEnd, "`next` of the page before.", text("^[A-Za-z0-9_-]+$");
    InstanceType, "A type of machine.", text(INSTANCE_TYPE_PATTERN);
    TypeGlobs, "Types of machines by pattern, separated by spaces.",
        text(spec::TypeGlobs::PATTERN).examples(["c* m*"]);
    TokenSha256, "SHA-256 of a token, in lower-case hex.", text("^[0-9a-f]{64}$");
    HostId, "What a host says of itself.", text(UNSTEERED_PATTERN).max_length(Some(LONGEST_ID));

    JobId, "A job's id, as its CI system says it.", text(ids::JobId::PATTERN).examples(["12345"]);
    CheckpointName, "A checkpoint's name.", text(ids::CheckpointName::PATTERN).examples(["job-12345-1739451000-a1b2c3d4"]);
    Name, "What somebody calls himself.", text(UNSTEERED_PATTERN).max_length(Some(crate::checkpoint::LONGEST_NAME));
    Command, "A machine's own command, for a shell. Values reach it in variables of its environment, and are never spliced in.",
        text(runner::COMMAND_PATTERN).max_length(Some(runner::LONGEST_COMMAND)).examples(["/usr/local/lib/motorpool/cleanup.sh"]);
    CredentialKind, "How a runner proves who it is: its agent redeems a secret and makes tokens of its own, or it has a token that stays.",
        one_of(registry::CredentialKind::ALL.map(registry::CredentialKind::name));
    CheckpointState, "A checkpoint's state.", one_of(["created", "finalize_queued", "reset", "deleted", "gc_reset"]);
    JobOutcome, "How a job ended.", one_of(["success", "failure", "canceled"]);
    FinalizeSource, "Who noticed that a job has ended.", one_of(["hook", "poller", "webhook", "agent", "gc"]);
    ToldBy, "Who says that a job has ended.", one_of(["hook", "poller", "agent"]);

    CommandLine, "A command line, without NUL.",
        text(channel::COMMAND_PATTERN).min_length(Some(1)).max_length(Some(channel::LONGEST_COMMAND));
    ExecSeconds, "How many seconds a command may take.", of(Type::Number)
        .minimum(Some(channel::SHORTEST_EXEC.as_secs()))
        .maximum(Some(channel::LONGEST_EXEC.as_secs()));
    ExitCode, "A command's exit code; below 0 where the agent says which signal ended it.", of(Type::Integer);

    RunnerCount, "How many runners.", whole(1, u64::from(LARGEST_POOL)).examples([2]);
    SpareCount, "How many idle runners.", whole(0, u64::from(LARGEST_POOL));
    Minutes, "A span of at most 30 days.", whole(1, LONGEST_LIMIT.as_secs() / 60);
    Seconds, "A span of at most 30 days.", whole(1, LONGEST_LIMIT.as_secs());
    Hours, "A span of at most 30 days.", whole(1, LONGEST_LIMIT.as_secs() / 3_600);
    JobCount, "How many jobs.", whole(1, u64::from(u32::MAX));
    Cpus, "How many CPUs.", whole(1, u64::from(u32::MAX));
    Megabytes, "How much memory.", whole(1, u64::MAX);
    ProtocolVersion, "The version of the agent's protocol: this one's, or one apart.",
        whole(u64::from(Protocol::OURS.0) - 1, u64::from(Protocol::OURS.0) + 1);

    StateName, "A runner's state.", one_of(runner::StateName::ALL.map(runner::StateName::as_str));
    Usage, "How the provider sells a machine.",
        one_of([spec::Usage::Spot, spec::Usage::OnDemand].map(spec::Usage::name));
    Notice, "What a provider says before it takes a machine away.", one_of(["interruption", "rebalance"]);
    BackendKind, "Where machines come from.", one_of(
        [
            pool::BackendKind::Local,
            pool::BackendKind::Ec2,
            pool::BackendKind::Proxmox,
            pool::BackendKind::Qemu,
            pool::BackendKind::BareMetal,
        ]
        .map(pool::BackendKind::name)
    ).examples(["local"]);
    Dispatch, "Who hands work to a pool's runners.", one_of(
        [pool::Dispatch::Claim, pool::Dispatch::Hook, pool::Dispatch::Lease].map(pool::Dispatch::name)
    ).examples(["claim"]);
    Clean, "What is proven before a runner is used again.", one_of(
        [pool::Clean::Replace, pool::Clean::Reset, pool::Clean::Cleanup, pool::Clean::Keep]
            .map(pool::Clean::name)
    ).examples(["cleanup"]);
    Architecture, "Of a machine's processors.",
        one_of([pool::Architecture::X86_64, pool::Architecture::Arm64].map(pool::Architecture::name));
    CiSystem, "A CI system.", one_of(Ci::ALL.map(Ci::name)).examples(["github"]);

    ImageId, "An image of EC2.",
        text(Ec2Rules::IMAGE_PATTERN).examples(["ami-0123456789abcdef0"]);
    SubnetId, "A subnet of EC2.",
        text(Ec2Rules::SUBNET_PATTERN).examples(["subnet-0123456789abcdef0"]);
    SecurityGroupId, "A security group of EC2.",
        text(Ec2Rules::SECURITY_GROUP_PATTERN).examples(["sg-0123456789abcdef0"]);
    InstanceProfile, "The name of an instance profile of EC2.", text(Ec2Rules::PROFILE_PATTERN);
    DiskGb, "The size of a disk.", whole(u64::from(*Ec2Rules::DISK_GB.start()), u64::from(*Ec2Rules::DISK_GB.end()));
    Tags, "Tags of machines, beside our own.", of(Type::Object)
        .property_names(Some(text(Ec2Rules::TAG_KEY_PATTERN)))
        .additional_properties(Some(text(Ec2Rules::TAG_VALUE_PATTERN)))
        .max_properties(Some(Ec2Rules::MOST_TAGS));
    JobEnv, "Variables for the commands of a pool, by name; none begins with MOTORPOOL_.", of(Type::Object)
        .property_names(Some(text(pool::VARIABLE_PATTERN)))
        .additional_properties(Some(text(pool::VALUE_PATTERN).max_length(Some(pool::LONGEST_VARIABLE))))
        .max_properties(Some(pool::MOST_VARIABLES));
    Download, "A file from the network, with what it must be.", of(Type::Object)
        .property("url", text(pool::Download::URL_PATTERN))
        .property("sha256", text(pool::Download::SHA256_PATTERN))
        .required("url")
        .required("sha256")
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    CiScope, "Where runners register: `org`, `owner/repository` or `enterprises/name`; `groups/ID`, `projects/ID` or `instance`.",
        text(CiBinding::SCOPE_PATTERN).examples(["my-org/my-repository"]);
    CiLabel, "A label beside the claim's own.", text(CiBinding::LABEL_PATTERN);
    ProgramVersion, "A version of a CI system's runner program.",
        text(CiBinding::VERSION_PATTERN).examples(["2.329.0"]);

    AnyEvent, "An event, in the form that its sender documents.", of(Type::Object);
    TaskResult, "How a task ended.", of(Type::Object)
        .property("task", text(ids::TaskId::PATTERN))
        .property("outcome", OneOfBuilder::new().item(one_of(["done"])).item(failed()))
        .property("took_ms", whole(0, u64::MAX))
        .required("task")
        .required("outcome");
}

fn failed() -> Object {
    let why = of(Type::Object).property("why", of(Type::String)).required("why");
    let failed = of(Type::Object).property("failed", why).required("failed");
    failed.additional_properties(Some(AdditionalProperties::FreeForm(false))).build()
}

fn of(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(kind)
}

fn text(pattern: &str) -> ObjectBuilder {
    of(Type::String).pattern(Some(pattern))
}

fn one_of<const N: usize>(names: [&'static str; N]) -> ObjectBuilder {
    of(Type::String).enum_values(Some(names))
}

fn whole(least: u64, most: u64) -> ObjectBuilder {
    of(Type::Integer).minimum(Some(least)).maximum(Some(most))
}

/// A claim's id has the form of a runner's, too.
fn subject_pattern() -> String {
    let inner = |pattern: &'static str| pattern.trim_start_matches('^').trim_end_matches('$');
    let [pool, checkpoint, runner] =
        [ids::PoolName::PATTERN, ids::CheckpointName::PATTERN, ids::RunnerId::PATTERN].map(inner);
    format!("^(pool:{pool}|checkpoint:{checkpoint}|{runner})$")
}

//! The user data of EC2 machines, and the image recipe that shares its scripts: accepted by cloud-init, run for real in a scratch
//! directory, and closed where it must be.

#[path = "user_data/machine.rs"]
mod machine;
#[path = "user_data/offered.rs"]
mod offered;

use anyhow::{Context, Result, ensure};
use machine::{Machine, files, infra, output, understood};
use offered::{CANARY, Filling, Offered, filled, said};
use rustix::process::{getgid, getuid};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// What EC2 takes, before it is encoded.
const MOST_BYTES: usize = 16 * 1024;

#[test]
fn cloud_init_accepts_it_and_ec2_takes_it() -> Result<()> {
    let sha256 = "0123456789abcdef".repeat(4);
    let long = format!("https://releases.example.org/{}", "a".repeat(200));
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let pem = rcgen::CertificateParams::new(vec!["pool.example.org".to_owned()])?.self_signed(&key)?.pem();
    let whole = Filling {
        agent: (long.clone(), sha256.clone()),
        runner: (long, sha256),
        // A chain of authorities.
        ca_pem: pem.repeat(3),
    };
    for filling in [Filling::default(), whole.clone()] {
        let text = filled(&filling)?;
        ensure!(text.len() < MOST_BYTES, "{} bytes", text.len());
        ensure!(text.starts_with("#cloud-config\n"));
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("user-data.yaml");
        fs::write(&file, &text)?;
        let schema = output(Command::new("cloud-init").args(["schema", "--config-file"]).arg(&file))?;
        ensure!(schema.status.success() && said(&schema).contains("Valid"), "{}", said(&schema));
    }
    let written = files(&understood(&filled(&whole)?)?)?;
    let (_, _, ca) = written.iter().find(|(path, ..)| path.ends_with("ca.pem")).context("the authority")?;
    ensure!(*ca == whole.ca_pem, "the authority's lines are kept: {ca:?}");
    Ok(())
}

#[test]
fn its_scripts_are_those_of_infra_and_sound() -> Result<()> {
    let written = files(&understood(&filled(&Filling::default())?)?)?;
    for (path, source) in [
        ("/opt/motorpool/lib/install.sh", "runner/install.sh"),
        ("/opt/motorpool/lib/guard.sh", "runner/guard.sh"),
        ("/opt/motorpool/lib/boot.sh", "runner/boot.sh"),
        ("/etc/systemd/system/motorpool-agent.service", "systemd/motorpool-agent-ec2.service"),
    ] {
        let (_, _, content) = written.iter().find(|(other, ..)| other == path).context(path)?;
        let source_text = fs::read_to_string(infra(source))?;
        ensure!(*content == source_text, "copy infra/{source} into the template again");
    }
    let scripts = ["install", "guard", "boot"].map(|name| format!("runner/{name}.sh"));
    let hooks = ["hooks/gitlab-pre-build.sh", "hooks/github-job-started.sh", "hooks/github-job-completed.sh"];
    for script in scripts.iter().map(String::as_str).chain(["packer/install.sh"]).chain(hooks) {
        for checker in [&["sh", "-n"][..], &["shellcheck", "--norc"]] {
            let judged = output(Command::new(checker[0]).args(&checker[1..]).arg(infra(script)))?;
            ensure!(judged.status.success(), "{script}: {}", said(&judged));
        }
    }
    let dir = tempfile::tempdir()?;
    let unit = dir.path().join("motorpool-agent.service");
    let text = fs::read_to_string(infra("systemd/motorpool-agent-ec2.service"))?;
    // Else any restart, such as needrestart's, would end the machine.
    ensure!(text.contains("\nSuccessAction=poweroff\n") && text.contains("\nRefuseManualStop=yes\n"));
    fs::write(&unit, text.replace("/usr/local/bin/motorpool-agent run", "/bin/true run"))?;
    let judged = output(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit))?;
    ensure!(
        judged.status.success() && !said(&judged).contains("motorpool-agent.service:"),
        "{}",
        said(&judged)
    );
    Ok(())
}

/// With a server that no agent takes, so that it ends before it does anything.
#[test]
fn the_units_arguments_are_those_of_the_agent() -> Result<()> {
    let unit = fs::read_to_string(infra("systemd/motorpool-agent-ec2.service"))?.replace("\\\n", "");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/motorpool-agent "));
    let agent = std::env::var("MOTORPOOL_AGENT_BIN")
        .context("MOTORPOOL_AGENT_BIN does not name the agent: `cargo xtask test` builds it and does")?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("exec \"$AGENT\" {}", line.context("ExecStart")?)]).env("AGENT", agent);
    for (name, value) in [
        ("MOTORPOOL_SERVER", "ftp://pool.example.org"),
        ("MOTORPOOL_LAUNCH", "l-tjpzfj6tsx32e1ax"),
        ("MOTORPOOL_FROM", "3"),
        ("MOTORPOOL_AGENT_OPTIONS", "--ca-file /etc/motorpool/ca.pem"),
    ] {
        command.env(name, value);
    }
    let ended = output(&mut command)?;
    ensure!(
        ended.status.code() == Some(1) && said(&ended).contains("must begin with https://"),
        "{}",
        said(&ended)
    );
    Ok(())
}

#[test]
fn a_first_boot_installs_what_is_named_and_starts_the_agent() -> Result<()> {
    let offered = Offered::new()?;
    let machine = offered.machine()?;
    let ca_pem = fs::read_to_string(&offered.server.ca)?;
    let booted = machine.boot(&filled(&Filling { ca_pem, ..offered.filling.clone() })?)?;
    ensure!(booted.status.success(), "{}", said(&booted));
    ensure!(
        machine.told()
            == [
                "daemon-reload",
                "enable motorpool-agent.service",
                "start --no-block motorpool-agent.service"
            ],
        "{:?}",
        machine.told()
    );
    ensure!(machine.read("/usr/local/bin/motorpool-agent")?.contains("echo agent"));
    for (path, mode) in [
        ("/usr/local/bin/motorpool-agent", 0o755),
        ("/run/motorpool/launch-secret", 0o600),
        ("/run/motorpool/install.env", 0o600),
        ("/etc/motorpool/agent.env", 0o644),
        ("/var/lib/motorpool", 0o711),
        ("/opt/motorpool/runner/run.sh", 0o755),
        ("/opt/motorpool/runner/bin/Runner.Listener", 0o755),
    ] {
        ensure!(machine.mode(path)? == mode, "{path} has mode {:o}", machine.mode(path)?);
    }
    // What one job after the other executes is root's, and closed to writers.
    for name in ["", "/run.sh", "/bin", "/bin/Runner.Listener"] {
        let found = fs::metadata(machine.at(&format!("/opt/motorpool/runner{name}")))?;
        ensure!(found.uid() == getuid().as_raw() && found.mode() & 0o022 == 0, "{name}: {found:?}");
    }
    let environment = machine.read("/etc/motorpool/agent.env")?;
    for line in [
        "MOTORPOOL_SERVER='https://pool.example.org'",
        "MOTORPOOL_LAUNCH='l-tjpzfj6tsx32e1ax'",
        "MOTORPOOL_FROM='3'",
        "MOTORPOOL_AGENT_OPTIONS='--ca-file /etc/motorpool/ca.pem'",
    ] {
        ensure!(environment.lines().any(|other| other == line), "{environment}");
    }
    ensure!(fs::read_dir(machine.at("/var-tmp"))?.next().is_none(), "nothing temporary is left");
    Ok(())
}

#[test]
fn a_program_of_one_file_is_gitlabs() -> Result<()> {
    let offered = Offered::new()?;
    let machine = offered.machine()?;
    let agent = offered.filling.agent.clone();
    let booted = machine.boot(&filled(&Filling { runner: agent, ..offered.filling.clone() })?)?;
    ensure!(booted.status.success(), "{}", said(&booted));
    ensure!(machine.mode("/opt/motorpool/runner/gitlab-runner")? == 0o755);
    Ok(())
}

/// Powering off is terminating: no machine is forgotten, whatever went wrong on it.
#[test]
fn whatever_fails_nothing_is_executable_and_the_machine_powers_off() -> Result<()> {
    let offered = Offered::new()?;
    let Filling { agent, runner, .. } = offered.filling.clone();
    let wrong = "0".repeat(64);
    let plain = |url: &str| url.replace("https:", "http:");
    for (filling, why) in [
        (Filling { agent: (agent.0.clone(), wrong.clone()), ..offered.filling.clone() }, "has the SHA-256"),
        (Filling { runner: (runner.0.clone(), wrong), ..offered.filling.clone() }, "has the SHA-256"),
        (
            Filling { agent: (plain(&agent.0), agent.1.clone()), ..offered.filling.clone() },
            "cannot fetch http:",
        ),
        (Filling { agent: (format!("{}-not", agent.0), agent.1), ..offered.filling.clone() }, "cannot fetch"),
        (Filling::default(), "the image has no agent"),
    ] {
        let machine = offered.machine()?;
        let booted = machine.boot(&filled(&filling)?)?;
        ensure!(machine.told().contains(&"poweroff".to_owned()), "{why}: {:?}", machine.told());
        ensure!(!machine.told().iter().any(|told| told.contains("start")), "{why}: {:?}", machine.told());
        let console = machine.read("/console")?;
        ensure!(console.contains("powers off") && console.contains(why), "{why}: {console}");
        ensure!(said(&booted).contains(why), "{why}: {}", said(&booted));
        if filling.agent != offered.filling.agent {
            ensure!(!machine.at("/usr/local/bin/motorpool-agent").exists(), "{why}");
        }
        ensure!(!machine.at("/opt/motorpool/runner/run.sh").exists(), "{why}");
        ensure!(fs::read_dir(machine.at("/var-tmp"))?.next().is_none(), "{why}: what was fetched is gone");
    }
    Ok(())
}

/// A boot script that is not even there, or that dies.
#[test]
fn a_boot_that_cannot_begin_powers_off_too() -> Result<()> {
    let user_data =
        filled(&Filling::default())?.replace("/opt/motorpool/lib/boot.sh\n", "/opt/motorpool/lib/lost.sh\n");
    let machine = Machine::new()?;
    machine.boot(&user_data)?;
    ensure!(machine.told() == ["poweroff"], "{:?}", machine.told());
    let config = understood(&filled(&Filling::default())?)?;
    let limit = config["bootcmd"][0].to_string();
    ensure!(limit.contains("--on-active=20min") && limit.contains("poweroff"), "{limit}");
    ensure!(limit.contains("--no-block"), "{limit}");
    Ok(())
}

#[test]
fn refuse_17_the_launch_secret_is_in_no_file_but_its_own_and_on_no_command_line() -> Result<()> {
    let offered = Offered::new()?;
    let mut machine = offered.machine()?;
    // Every program that the scripts call notes its arguments and its environment first.
    const CALLED: [&str; 19] = [
        "cat",
        "chmod",
        "chown",
        "curl",
        "cut",
        "dirname",
        "getent",
        "gzip",
        "id",
        "install",
        "mkdir",
        "mktemp",
        "rm",
        "sh",
        "sha256sum",
        "sleep",
        "tail",
        "tar",
        "useradd",
    ];
    for name in CALLED {
        let body = format!(
            "/usr/bin/tr '\\0' '\\n' <\"/proc/$$/environ\" >>\"$NOTED\"\necho \"{name} $*\" >>\"$NOTED\"\n\
             real=$(PATH=$REAL_PATH command -v {name})\nexec \"$real\" \"$@\""
        );
        machine.script(&format!("/shims/{name}"), &body)?;
    }
    let path = std::env::var("PATH")?;
    let noted = tempfile::NamedTempFile::new()?;
    machine.set("NOTED", noted.path());
    machine.set("REAL_PATH", &path);
    machine.set("PATH", format!("{}:{path}", machine.at("/shims").display()));
    let user_data = filled(&offered.filling)?;
    // As cloud-init keeps it.
    for kept in ["user-data.txt", "user-data.txt.i", "cloud-config.txt", "obj.pkl"] {
        machine.write(&format!("/var/lib/cloud/instance/{kept}"), 0o600, &user_data)?;
    }
    for kept in ["instance-data-sensitive.json", "combined-cloud-config.json"] {
        machine.write(&format!("/run/cloud-init/{kept}"), 0o600, &user_data)?;
    }
    let booted = machine.boot(&user_data)?;
    ensure!(booted.status.success(), "{}", said(&booted));
    let noted = fs::read_to_string(noted.path())?;
    // Not shown where it fails: it is the environment of whoever runs the tests.
    ensure!(noted.contains("\ncurl ") && noted.contains("\nsha256sum "), "the programs were not noted");
    ensure!(!noted.contains(CANARY), "a program was given the secret");
    ensure!(!said(&booted).contains(CANARY));
    let holding: Vec<String> = machine
        .everything()?
        .into_iter()
        .filter(|(_, content)| content.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()))
        .map(|(path, _)| path)
        .collect();
    ensure!(holding == ["/run/motorpool/launch-secret"], "{holding:?}");
    ensure!(machine.read("/run/motorpool/launch-secret")? == CANARY);
    Ok(())
}

#[test]
fn an_image_has_it_all_and_its_machines_fetch_nothing() -> Result<()> {
    let offered = Offered::new()?;
    let machine = offered.machine()?;
    let Filling { agent, runner, ca_pem: _ } = &offered.filling;
    let mut bake = Command::new("/bin/sh");
    bake.arg(infra("packer/install.sh"))
        .envs([("AGENT_URL", &agent.0), ("AGENT_SHA256", &agent.1)])
        .envs([("RUNNER_URL", &runner.0), ("RUNNER_SHA256", &runner.1)]);
    let baked = machine.run(&mut bake)?;
    ensure!(baked.status.success(), "{}", said(&baked));
    ensure!(machine.told().is_empty(), "an image starts nothing: {:?}", machine.told());
    // Nor does systemd, which goes by its presets at the first boot of a machine from the image.
    let systemctl = |what: &[&str]| {
        let root = format!("--root={}", machine.at("").display());
        output(Command::new("systemctl").arg(root).args(what))
    };
    let preset = systemctl(&["preset-all", "--preset-mode=enable-only"])?;
    ensure!(preset.status.success(), "{}", said(&preset));
    let state = said(&systemctl(&["is-enabled", "motorpool-agent.service"])?);
    ensure!(state.trim() == "disabled", "{state}");
    for timer in ["apt-daily.timer", "apt-daily-upgrade.timer"] {
        let state = said(&systemctl(&["is-enabled", timer])?);
        ensure!(state.trim() == "masked", "{timer}: {state}");
    }
    drop(offered);

    let booted = machine.boot(&filled(&Filling::default())?)?;
    ensure!(booted.status.success(), "{}", said(&booted));
    ensure!(machine.told().last().is_some_and(|told| told.starts_with("start")), "{:?}", machine.told());
    ensure!(machine.mode("/usr/local/bin/motorpool-agent")? == 0o755);
    ensure!(machine.mode("/opt/motorpool/runner/run.sh")? == 0o755);
    Ok(())
}

/// In network namespaces of its own: one for the machine, one for the metadata service.
#[test]
fn refuse_16_a_job_is_another_user_and_cannot_ask_the_metadata_service() -> Result<()> {
    ensure!(getuid().is_root(), "this test makes network namespaces and changes users: run it as root");
    let offered = Offered::new()?;
    let machine = offered.machine()?;
    let booted = machine.boot(&filled(&offered.filling)?)?;
    ensure!(booted.status.success(), "{}", said(&booted));
    machine.write("/var/lib/motorpool/state.json", 0o600, CANARY)?;
    let script = infra("../tests/tests/user_data/metadata.sh");
    let mut inside = Command::new("unshare");
    inside.args(["--net", "sh"]).arg(script);
    let told = said(&machine.run(inside.env("GUARD", Path::new(&infra("runner/guard.sh"))))?);
    for line in [
        "before, a job got metadata",
        "the agent got metadata",
        "a job got nothing",
        "without the rule a job would get metadata",
        "each start of the program closes it again",
        "one rule is enough",
        "a job cannot read the agent's state",
        "a job cannot change the program",
    ] {
        ensure!(told.lines().any(|other| other == line), "{line}:\n{told}");
    }
    ensure!(getgid().is_root() && !told.contains(CANARY), "{told}");
    Ok(())
}

/// With the real one, since it removes what it does not know.
#[test]
fn refuse_16_the_guard_outlives_what_systemd_networkd_does() -> Result<()> {
    ensure!(getuid().is_root(), "this test makes namespaces: run it as root");
    let script = infra("../tests/tests/user_data/networkd.sh");
    let mut inside = Command::new("unshare");
    inside.args(["--net", "--mount", "--propagation", "private", "timeout", "120", "sh"]).arg(script);
    inside.env("GUARD", infra("runner/guard.sh")).env("MOTORPOOL_JOB_USER", "nobody");
    let told = said(&output(&mut inside)?);
    for line in ["it removes rules", "the guard stays", "the guard of IPv6 stays"] {
        ensure!(told.lines().any(|other| other == line), "{line}:\n{told}");
    }
    Ok(())
}

/// What Debian gives a new user breaks the jobs of GitLab's program, which start a login shell without a terminal; and a home that nobody empties
/// tells one job of the other. The agent makes it.
#[test]
fn the_jobs_user_has_no_home_but_what_the_agent_makes() -> Result<()> {
    let offered = Offered::new()?;
    let mut machine = offered.machine()?;
    for file in ["passwd", "group", "shadow", "gshadow"] {
        machine.write(&format!("/etc/{file}"), 0o600, "")?;
    }
    machine.write("/etc/skel/.bash_logout", 0o644, "clear_console")?;
    fs::create_dir(machine.at("/home"))?;
    let real = "PATH=/usr/sbin:/sbin:$PATH exec useradd --prefix \"$MOTORPOOL_ROOT\" \"$@\"";
    machine.script("/shims/useradd", &format!("PATH=$REAL_PATH\n{real}"))?;
    let path = std::env::var("PATH")?;
    machine.set("REAL_PATH", &path);
    machine.set("PATH", format!("{}:{path}", machine.at("/shims").display()));
    machine.set("MOTORPOOL_JOB_USER", "motorpool-of-a-test");
    let agent = Filling { runner: Default::default(), ..offered.filling.clone() };
    let booted = machine.boot(&filled(&agent)?)?;
    ensure!(booted.status.success(), "{}", said(&booted));
    let made = machine.read("/etc/passwd")?;
    ensure!(
        made.starts_with("motorpool-of-a-test:") && made.contains(":/var/lib/motorpool/home:/bin/sh"),
        "{made}"
    );
    ensure!(
        fs::read_dir(machine.at("/home"))?.next().is_none()
            && !machine.at("/var/lib/motorpool/home").exists()
    );
    Ok(())
}

//! What is known of the CI systems' own runner programs: how they begin, what they find in their environment, what they
//! leave behind, how they tell their version. It starts nothing.

use std::path::{Path, PathBuf};

use motorpool_domain::ci::CiSystem;
use motorpool_wire::agent::RegistrationAnswer;

pub(super) const PROGRAM_DIR: &str = "MOTORPOOL_PROGRAM_DIR";

/// GitLab's program hands all of its own environment to its jobs. So it is given its token through a named pipe, which it reads once,
/// before it has a job; nothing holds it longer. What it writes beside that is its own.
const GITLAB: &str = r#"
set -eu
dir=${MOTORPOOL_JOB_DIR:-$MOTORPOOL_RUNNER_DIR}/gitlab-runner
rm -rf -- "$dir"
mkdir -m 700 -- "$dir"
export CONFIG_FILE="$dir/config.toml"
mkfifo -m 600 -- "$CONFIG_FILE"
tell() {
    printf '[[runners]]\n'
    printf "%s = '''%s'''\n" name "$RUNNER_NAME" url "$CI_SERVER_URL" token "$CI_SERVER_TOKEN" \
        executor "$RUNNER_EXECUTOR" builds_dir "$RUNNER_BUILDS_DIR" cache_dir "$RUNNER_CACHE_DIR"
}
(tell >"$CONFIG_FILE" &)
unset CI_SERVER_TOKEN
exec "$MOTORPOOL_PROGRAM_DIR/gitlab-runner" run-single --max-builds 1 --runner "$RUNNER_NAME"
"#;

/// What begins where the pool names nothing else. The runner's name, its address and its secret are in the environment.
pub(super) fn command(system: CiSystem) -> &'static str {
    match system {
        CiSystem::GitHub => r#"exec "$MOTORPOOL_PROGRAM_DIR/run.sh""#,
        CiSystem::GitLab => GITLAB,
        CiSystem::Jenkins => "echo 'Jenkins has its nodes started by the run_cmd of the pool' >&2; exit 1",
    }
}

/// The secret is in this, and in nothing else.
pub(super) fn environment(registration: &RegistrationAnswer, work_dir: &Path) -> Vec<(&'static str, String)> {
    let RegistrationAnswer { system, name, url, secret } = registration;
    let in_work_dir = |name: &str| work_dir.join(name).to_string_lossy().into_owned();
    let url = url.clone().unwrap_or_default();
    let mut env = match system {
        CiSystem::GitHub => vec![("ACTIONS_RUNNER_INPUT_JITCONFIG", secret.clone())],
        CiSystem::GitLab => vec![
            ("CI_SERVER_URL", url.clone()),
            ("CI_SERVER_TOKEN", secret.clone()),
            ("RUNNER_NAME", name.clone()),
            ("RUNNER_EXECUTOR", "shell".to_owned()),
            ("RUNNER_BUILDS_DIR", in_work_dir("builds")),
            ("RUNNER_CACHE_DIR", in_work_dir("cache")),
        ],
        CiSystem::Jenkins => Vec::new(),
    };
    if !url.is_empty() {
        env.push(("MOTORPOOL_CI_URL", url));
    }
    env
}

/// Its jobs' files are then in its own directory, and not in the agent's.
pub(super) fn works_beside_itself(system: CiSystem) -> bool {
    match system {
        CiSystem::GitHub => true,
        CiSystem::GitLab | CiSystem::Jenkins => false,
    }
}

/// What a program writes of its registration, and leaves there if it is killed.
pub(super) fn leftovers(system: CiSystem) -> &'static [&'static str] {
    match system {
        CiSystem::GitHub => &[".runner", ".credentials", ".credentials_rsaparams"],
        CiSystem::GitLab | CiSystem::Jenkins => &[],
    }
}

/// How the program in this directory is asked for its version; nothing if there is none.
pub(super) fn version_command(program_dir: &Path) -> Option<&'static str> {
    let known: [(PathBuf, &str); 2] = [
        (
            ["bin", "Runner.Listener"].iter().collect(),
            r#"exec "$MOTORPOOL_PROGRAM_DIR/bin/Runner.Listener" --version"#,
        ),
        ("gitlab-runner".into(), r#"exec "$MOTORPOOL_PROGRAM_DIR/gitlab-runner" --version"#),
    ];
    known
        .into_iter()
        .find(|(file, _command)| program_dir.join(file).is_file())
        .map(|(_file, command)| command)
}

/// GitHub's program says nothing else, GitLab's has a line `Version: …` among others.
pub(super) fn version(output: &str) -> Option<String> {
    output.lines().find_map(|line| {
        let line = line.trim();
        let word = line.strip_prefix("Version:").unwrap_or(line).trim();
        let numbers = word.split(['-', '+']).next()?;
        let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_version = word.len() <= 40
            && numbers.contains('.')
            && numbers.split('.').all(numeric)
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte));
        is_version.then(|| word.to_owned())
    })
}

/// What a program printed, without its secret. A piece of that may begin the text, where it was cut.
pub(super) fn without(secret: &str, text: &str) -> String {
    const SHORTEST_PIECE: usize = 8;
    if secret.is_empty() {
        return text.to_owned();
    }
    let whole = text.replace(secret, "[secret]");
    let pieces = secret.char_indices().map(|(at, _char)| secret.get(at..).unwrap_or_default());
    let piece =
        pieces.take_while(|piece| piece.len() >= SHORTEST_PIECE).find_map(|piece| whole.strip_prefix(piece));
    match piece {
        Some(rest) => format!("[secret]{rest}"),
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(system: CiSystem) -> RegistrationAnswer {
        RegistrationAnswer {
            system,
            name: "mp-ab12cd-r-1.1.1".to_owned(),
            url: Some("https://ci.example".to_owned()),
            secret: "canary".to_owned(),
        }
    }

    #[test]
    fn refuse_17_the_secret_is_a_variable_and_no_part_of_a_command() {
        for system in [CiSystem::GitHub, CiSystem::GitLab] {
            let env = environment(&registration(system), Path::new("/work"));
            assert_eq!(env.iter().filter(|(_name, value)| value == "canary").count(), 1, "{system:?}");
            assert!(env.contains(&("MOTORPOOL_CI_URL", "https://ci.example".to_owned())));
            assert!(!command(system).contains("canary"));
        }
        let gitlab = environment(&registration(CiSystem::GitLab), Path::new("/work"));
        assert!(gitlab.contains(&("RUNNER_BUILDS_DIR", "/work/builds".to_owned())));
    }

    #[test]
    fn both_programs_tell_their_version() {
        let gitlab = "Version:      17.5.1\nGit revision: affd9e7d\nGO version:   go1.22.7\nOS/Arch:      linux/amd64\n";
        for (output, expected) in [
            ("2.330.0\n", Some("2.330.0")),
            (gitlab, Some("17.5.1")),
            ("warning: old libc 2.31 found\n2.330.0", Some("2.330.0")),
            ("Version: 17.6.0-rc1+g12", Some("17.6.0-rc1+g12")),
            ("sh: not found", None),
            ("12", None),
            ("1..2", None),
            ("", None),
        ] {
            assert_eq!(version(output).as_deref(), expected, "{output:?}");
        }
    }

    #[test]
    fn refuse_17_output_is_told_without_the_secret_and_without_its_end() {
        let secret = "0123456789abcdefghij";
        assert_eq!(without(secret, &format!("a {secret} b {secret}")), "a [secret] b [secret]");
        assert_eq!(without(secret, "9abcdefghij; it failed"), "[secret]; it failed");
        assert_eq!(without(secret, "ij; it failed"), "ij; it failed");
        assert_eq!(without("", "it failed"), "it failed");
    }
}

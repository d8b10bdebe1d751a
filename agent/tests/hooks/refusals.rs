//! What the socket refuses: what is no request, what is too long or too slow, and places that are not safe.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::CREATE;
use crate::STAYS;
use crate::control_plane::{Bench, CHECKPOINT, Plan};

impl Bench {
    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path("agent/socket/agent.sock")).await.unwrap()
    }

    /// What is answered to these bytes, to the end of it.
    async fn says_to(&self, bytes: &[u8]) -> Value {
        let mut stream = self.connect().await;
        // It may have answered, and gone, before it has read all of it.
        let _gone = stream.write_all(bytes).await;
        answer(&mut stream).await
    }
}

async fn answer(stream: &mut UnixStream) -> Value {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer.lines().count(), 1, "{answer:?}");
    serde_json::from_str(&answer).unwrap()
}

#[tokio::test]
async fn refuse_18_what_is_no_request_is_refused_and_nothing_is_asked() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let too_long = format!(r#"{{"create":{{"job_id":"1","caller":"{}"}}}}"#, "x".repeat(70_000));
    let far_too_long = vec![b'x'; 900_000];
    let deep = "[".repeat(60_000);
    for (request, status) in [
        (&b"\n"[..], 400),
        (b"GET / HTTP/1.1\r\n", 400),
        (b"\xff\xfe\n", 400),
        (b"null\n", 400),
        (b"{}\n", 400),
        (b"{\"exec\":{\"command\":\"id\"}}\n", 400),
        (b"{\"state\":{}}\n", 400),
        (b"{\"readiness\":{},\"status\":{}}\n", 400),
        (b"{\"readiness\":{\"runner_id\":\"r-2\"}}\n", 400),
        (b"{\"create\":{}}\n", 400),
        (b"{\"create\":{\"job_id\":\"1\",\"runner_id\":\"r-2\"}}\n", 400),
        (b"{\"create\":{\"job_id\":\"$(id)\"}}\n", 400),
        (b"{\"create\":{\"job_id\":\"a\\nb\"}}\n", 400),
        (b"{\"create\":{\"job_id\":\"a\\u0000b\"}}\n", 400),
        (b"{\"status\":{\"checkpoint_name\":\"../../pools\"}}\n", 400),
        (b"{\"finalize\":{\"checkpoint_name\":\"job-1-2-0123abcd\",\"status\":\"fine\"}}\n", 400),
        (
            b"{\"finalize\":{\"checkpoint_name\":\"job-1-2-0123abcd\",\"status\":\"success\",\"source\":\"webhook\"}}\n",
            400,
        ),
        (deep.as_bytes(), 408),
        (too_long.as_bytes(), 413),
        (&far_too_long, 413),
    ] {
        let answer = bench.says_to(request).await;
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        assert_eq!(answer["error"]["status"], status, "{shown}: {answer}");
        assert_eq!(answer["error"]["code"], "invalid_request", "{shown}: {answer}");
    }
    assert!(bench.seen().hook_calls.is_empty());
    let answer = bench.says_to(b"{\"create\":{\"job_id\":\"42\"}}\nand more").await;
    assert_eq!(answer["ok"]["name"], CHECKPOINT, "one line is one request; the rest is nobody's");
}

#[tokio::test]
async fn refuse_24_who_is_slow_is_let_go_and_holds_up_nobody_for_long() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut stream = bench.connect().await;
        stream.write_all(b"{\"create\":").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(bench.hook(&CREATE).await.status.code(), Some(0), "its turn comes");
    let answer = answer(slow.first_mut().unwrap()).await;
    assert_eq!(answer["error"]["status"], 408);
    assert_eq!(bench.seen().hook_calls.len(), 1);
}

#[tokio::test]
async fn refuse_20_an_agent_makes_no_socket_where_others_could_put_theirs() {
    let mut bench = Bench::new(Plan::run(STAYS)).await;
    let (dir, socket) = (bench.path("open"), bench.path("open/agent.sock").display().to_string());
    fs::create_dir(&dir).unwrap();
    let close = |mode| fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
    close(0o777);
    bench.start_agent(&["--socket", &socket]);
    assert_eq!(bench.agent_exit().await.code(), Some(1));
    assert!(bench.log().contains(&format!("chmod go-w {}", dir.display())), "{}", bench.log());
    assert!(bench.seen().syncs.is_empty(), "nothing has begun");
    close(0o755);
    bench.start_agent(&[
        "--socket",
        &socket,
        "--socket-group",
        &rustix::process::getegid().as_raw().to_string(),
    ]);
    bench.until_file("agent/work/up").await;
    assert_eq!(fs::symlink_metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
}

//! What each test has: a host of its own in a directory that goes with it, a VM of the small guest's, and a clock. At its end no QEMU is left.

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use motorpool_backend_qemu::restore::{Done, Goal, Operation};
use motorpool_backend_qemu::{
    Acceleration, BaseImage, Console, Host, ImageFormat, Kernel, Limits, Machine, Network, Programs,
    SnapshotName, Vm,
};

use crate::guest::Guest;

pub(crate) struct Bench {
    pub(crate) host: Host,
    pub(crate) vm: Vm,
    base_written: SystemTime,
    _root: tempfile::TempDir,
}

pub(crate) fn host(root: PathBuf) -> Host {
    Host { root, programs: Programs::default(), limits: Limits::default() }
}

pub(crate) fn machine() -> Machine {
    let guest = std::env::var_os("MOTORPOOL_QEMU_GUEST").map(PathBuf::from);
    let guest =
        guest.expect("MOTORPOOL_QEMU_GUEST is not set: `cargo xtask vm qemu` makes the guest, and sets it");
    Machine {
        base: BaseImage { path: guest.join("disk.img"), format: ImageFormat::Raw },
        disk_bytes: None,
        memory_mib: 256,
        cpus: 1,
        acceleration: Acceleration::Best,
        network: Network::User { restrict: true, forwards: Vec::new() },
        console: Console::Socket,
        kernel: Some(Kernel {
            image: guest.join("vmlinuz"),
            initrd: Some(guest.join("initrd.img")),
            append: "console=ttyS0 quiet panic=-1".into(),
        }),
    }
}

impl Bench {
    /// A VM that is made, and does not run.
    pub(crate) async fn new() -> Self {
        let root = tempfile::TempDir::with_prefix("motorpool-qemu-").unwrap();
        let host = host(root.path().join("vms"));
        let vm = host.vm(&"vm-1".parse().unwrap());
        vm.make(&machine()).await.unwrap();
        Self { host, vm, base_written: base_written(), _root: root }
    }

    /// And runs, with a file on its disk.
    pub(crate) async fn started() -> (Self, Guest) {
        let bench = Self::new().await;
        assert_eq!(bench.vm.start().await.unwrap().number, 1);
        let mut guest = Guest::booted(bench.vm.path());
        guest.sh("echo before >/mnt/before; sync");
        (bench, guest)
    }

    pub(crate) async fn does(&self, id: &str, goal: Goal) -> Done {
        self.vm.drive(&operation(id, goal)).await.unwrap()
    }

    pub(crate) async fn end(self) {
        self.vm.remove().await.unwrap();
        assert_eq!(base_written(), self.base_written, "the base image is never written");
        assert_eq!(self.host.vms().unwrap(), []);
    }
}

/// Whatever fails: a test leaves no QEMU behind.
impl Drop for Bench {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.vm.path().join("qemu.pid")) {
            let _killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status();
        }
    }
}

fn base_written() -> SystemTime {
    std::fs::metadata(machine().base.path).unwrap().modified().unwrap()
}

pub(crate) fn snapshot() -> SnapshotName {
    SnapshotName::of("cp-1")
}

pub(crate) fn operation(id: &str, goal: Goal) -> Operation {
    Operation { id: id.parse().unwrap(), snapshot: snapshot(), goal }
}

/// For people to read: nothing is decided by it.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the tests' clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn says(&self, what: &str) {
        eprintln!("    {what}: {:.2} s", self.0.elapsed().as_secs_f64());
    }
}

//! A shell in the small guest, over its serial port. It knows nothing of the driver.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Each answer's end is told apart from all others', those of before a rollback too.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) struct Guest {
    serial: UnixStream,
    heard: String,
}

impl Guest {
    /// Of a VM that was just started or taken back.
    pub(crate) fn of(vm: &Path) -> Self {
        let serial = UnixStream::connect(vm.join("serial.sock")).unwrap();
        serial.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { serial, heard: String::new() }
    }

    pub(crate) fn booted(vm: &Path) -> Self {
        let mut guest = Self::of(vm);
        let wanted = boots_wanted(vm);
        // It may have said so before anybody listened.
        for _ in 0..PATIENCE.as_millis() / 50 {
            let said = std::fs::read(vm.join("console.log")).unwrap();
            let last = String::from_utf8_lossy(&said);
            let boots = last.matches("guest-is-up").count();
            if boots >= wanted {
                assert_eq!(guest.sh("echo hello"), "hello");
                return guest;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("the guest does not boot");
    }

    /// What a command says, on both channels.
    pub(crate) fn sh(&mut self, command: &str) -> String {
        let end = format!("end-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // In two parts, so that the echo of the line is not taken for its answer.
        let (left, right) = end.split_at(4);
        writeln!(
            self.serial,
            "stty -echo; echo {left}''{right}; {{ {command}; }} 2>&1; echo {left}''{right}"
        )
        .unwrap();
        let mut buffer = [0; 4_096];
        while self.heard.matches(&end).count() < 2 {
            match self.serial.read(&mut buffer) {
                Ok(0) => panic!("the guest hung up: {}", self.heard),
                Ok(length) => self.heard += &String::from_utf8_lossy(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer: {}", self.heard),
                Err(error) => panic!("{error}"),
            }
        }
        let heard = std::mem::take(&mut self.heard);
        let answer = heard.split(&end).nth(1).unwrap();
        answer.replace('\r', "").trim().to_owned()
    }

    pub(crate) fn boot_id(&mut self) -> String {
        self.sh("cat /proc/sys/kernel/random/boot_id")
    }

    /// As the host tells it.
    pub(crate) fn generation(&mut self) -> u64 {
        let raw = self.sh("cat /sys/firmware/qemu_fw_cfg/by_name/opt/motorpool/generation/raw");
        raw.parse().unwrap_or_else(|_| panic!("{raw}"))
    }

    /// As a job leaves it: a file, and a process.
    pub(crate) fn work(&mut self) {
        self.sh("echo after >/mnt/after; sync; (sleep 98765 &)");
        assert_eq!(self.traces(), ("after\nbefore".to_owned(), true));
    }

    /// The files on the disk, and whether the process runs.
    pub(crate) fn traces(&mut self) -> (String, bool) {
        let files = self.sh("ls -1 /mnt | grep -v lost");
        let processes = self.sh("ps | grep 98765 | grep -vc grep");
        (files, processes != "0")
    }
}

/// `console.log` goes on over all boots.
fn boots_wanted(vm: &Path) -> usize {
    let boots = vm.join("boots");
    let so_far: usize = std::fs::read_to_string(&boots).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    std::fs::write(&boots, (so_far + 1).to_string()).unwrap();
    so_far + 1
}

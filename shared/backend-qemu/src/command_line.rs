//! QEMU's command line, as a list of arguments: no shell ever sees it. Pure. Files of the VM are named relative to its directory, in which QEMU is
//! started: so no path of the operator's is spliced into an option, where a comma would end it.

use std::ffi::OsString;

use serde_json::json;

use crate::directory::{CONSOLE_LOG, OVERLAY, PID, QMP_SOCKET, SERIAL_SOCKET};
use crate::machine::{Console, Forward, Kernel, Machine, Network};
use crate::names::{SnapshotName, VmName};

/// The block node of the VM's disk: what QMP calls it.
pub(crate) const DISK: &str = "disk";
/// In the guest: `/sys/firmware/qemu_fw_cfg/by_name/opt/motorpool/generation/raw`.
const GENERATION_IN_GUEST: &str = "opt/motorpool/generation";

/// What differs from one start of the same machine to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub generation: u64,
    /// Disk and memory of this snapshot, instead of a boot.
    pub load: Option<SnapshotName>,
    pub kvm: bool,
}

/// Without the program's own name. The VM stands still until it is told to go on (`-S`): first it is seen that it is there.
pub fn arguments(machine: &Machine, name: &VmName, launch: &Launch) -> Vec<OsString> {
    let Machine { base: _, disk_bytes: _, memory_mib, cpus, acceleration: _, network, console, kernel } =
        machine;
    let mut line = Line::default();
    line.flags(&["-nodefaults", "-no-user-config", "-no-reboot", "-S"]);
    line.option("-name", process_name(name, launch.generation));
    line.option("-display", "none").option("-machine", "pc");
    if launch.kvm {
        line.option("-accel", "kvm").option("-cpu", "host");
    } else {
        line.option("-accel", "tcg,thread=multi").option("-cpu", "max");
    }
    line.option("-m", memory_mib.to_string()).option("-smp", cpus.to_string());
    if let Some(Kernel { image, initrd, append }) = kernel {
        line.option("-kernel", image).option("-append", append);
        if let Some(initrd) = initrd {
            line.option("-initrd", initrd);
        }
    }
    let file = json!({"driver": "file", "filename": OVERLAY});
    line.option(
        "-blockdev",
        json!({"driver": "qcow2", "node-name": DISK, "discard": "unmap", "file": file}).to_string(),
    );
    line.option("-device", format!("virtio-blk-pci,drive={DISK}"));
    // A new process has a new one, and says so to the guest it has loaded: its kernel then draws new random numbers.
    line.option("-device", "vmgenid,guid=auto");
    // As wide as any: a snapshot has the width that the file had.
    line.option("-fw_cfg", format!("name={GENERATION_IN_GUEST},string={:020}", launch.generation));
    if let Some(netdev) = netdev(network) {
        line.option("-netdev", netdev);
        line.option("-device", format!("virtio-net-pci,netdev=net,mac={}", name.mac()));
    }
    line.option("-chardev", serial(*console)).option("-serial", "chardev:serial");
    line.option("-chardev", format!("socket,id=qmp,path={QMP_SOCKET},server=on,wait=off"));
    line.option("-mon", "chardev=qmp,mode=control").option("-pidfile", PID);
    if let Some(snapshot) = &launch.load {
        line.option("-loadvm", snapshot.as_str());
    }
    line.0
}

/// QMP tells it again: so a process says which generation it is.
pub(crate) fn process_name(name: &VmName, generation: u64) -> String {
    format!("{name}.{generation}")
}

pub(crate) fn generation_of(process_name: &str) -> Option<u64> {
    process_name.rsplit_once('.')?.1.parse().ok()
}

fn netdev(network: &Network) -> Option<String> {
    match network {
        Network::None => None,
        Network::User { restrict, forwards } => {
            let mut value = "user,id=net".to_owned();
            if *restrict {
                value.push_str(",restrict=on");
            }
            for Forward { host_address, host_port, guest_port } in forwards {
                value.push_str(&format!(",hostfwd=tcp:{host_address}:{host_port}-:{guest_port}"));
            }
            Some(value)
        }
        Network::Netdev(value) => Some(format!("{value},id=net")),
    }
}

fn serial(console: Console) -> String {
    match console {
        Console::File => format!("file,id=serial,path={CONSOLE_LOG},append=on"),
        Console::Socket => {
            format!(
                "socket,id=serial,path={SERIAL_SOCKET},server=on,wait=off,logfile={CONSOLE_LOG},logappend=on"
            )
        }
    }
}

#[derive(Debug, Default)]
struct Line(Vec<OsString>);

impl Line {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) -> &mut Self {
        self.0.push(name.into());
        self.0.push(value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Acceleration, BaseImage, ImageFormat};

    fn machine() -> Machine {
        Machine {
            base: BaseImage { path: "/images/base, it=self.raw".into(), format: ImageFormat::Raw },
            disk_bytes: None,
            memory_mib: 512,
            cpus: 2,
            acceleration: Acceleration::Best,
            network: Network::None,
            console: Console::File,
            kernel: None,
        }
    }

    fn line(machine: &Machine, launch: &Launch) -> Vec<String> {
        let words = arguments(machine, &"r-1".parse().unwrap(), launch);
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    fn values(line: &[String], option: &str) -> Vec<String> {
        line.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1].clone()).collect()
    }

    const BOOT: Launch = Launch { generation: 7, load: None, kvm: false };

    #[test]
    fn a_boot() {
        let line = line(&machine(), &BOOT);
        for (option, expected) in [
            ("-name", &["r-1.7"][..]),
            ("-machine", &["pc"]),
            ("-accel", &["tcg,thread=multi"]),
            ("-cpu", &["max"]),
            ("-m", &["512"]),
            ("-smp", &["2"]),
            ("-device", &["virtio-blk-pci,drive=disk", "vmgenid,guid=auto"]),
            ("-fw_cfg", &["name=opt/motorpool/generation,string=00000000000000000007"]),
            (
                "-chardev",
                &[
                    "file,id=serial,path=console.log,append=on",
                    "socket,id=qmp,path=qmp.sock,server=on,wait=off",
                ],
            ),
            ("-pidfile", &["qemu.pid"]),
            ("-loadvm", &[]),
            ("-kernel", &[]),
            ("-netdev", &[]),
        ] {
            assert_eq!(values(&line, option), expected, "{option}");
        }
        for flag in ["-S", "-nodefaults", "-no-user-config", "-no-reboot"] {
            assert!(line.iter().any(|word| word == flag), "{flag}");
        }
        let disk: serde_json::Value = serde_json::from_str(&values(&line, "-blockdev")[0]).unwrap();
        assert_eq!((&disk["driver"], &disk["file"]["filename"]), (&json!("qcow2"), &json!("overlay.qcow2")));
    }

    #[test]
    fn a_load_has_the_devices_of_the_boot() {
        let load = Launch { generation: 8, load: Some("mp-1".parse().unwrap()), kvm: false };
        let (boot, load) = (line(&machine(), &BOOT), line(&machine(), &load));
        assert_eq!(values(&load, "-loadvm"), ["mp-1"]);
        for option in ["-machine", "-cpu", "-m", "-smp", "-device", "-chardev", "-blockdev"] {
            assert_eq!(values(&boot, option), values(&load, option), "{option}");
        }
    }

    #[test]
    fn kvm_has_the_hosts_processor() {
        let line = line(&machine(), &Launch { kvm: true, ..BOOT });
        assert_eq!(
            (values(&line, "-accel"), values(&line, "-cpu")),
            (vec!["kvm".into()], vec!["host".into()])
        );
    }

    #[test]
    fn networks() {
        let forward = Forward { host_address: Ipv4Addr::LOCALHOST, host_port: 2_222, guest_port: 22 };
        for (network, expected) in [
            (Network::User { restrict: false, forwards: Vec::new() }, "user,id=net"),
            (
                Network::User { restrict: true, forwards: vec![forward] },
                "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22",
            ),
            (Network::Netdev("tap,ifname=tap0,script=no".into()), "tap,ifname=tap0,script=no,id=net"),
        ] {
            let line = line(&Machine { network, ..machine() }, &BOOT);
            assert_eq!(values(&line, "-netdev"), [expected]);
            assert!(
                values(&line, "-device")
                    .iter()
                    .any(|value| value.starts_with("virtio-net-pci,netdev=net,mac="))
            );
        }
    }

    #[test]
    fn refuse_13_what_the_operator_names_is_an_argument_of_its_own_or_on_no_command_line() {
        let nasty = "/a b,c=$(d);`e`\n'f".to_owned();
        let kernel =
            Kernel { image: nasty.clone().into(), initrd: Some(nasty.clone().into()), append: nasty.clone() };
        let line = line(&Machine { kernel: Some(kernel), console: Console::Socket, ..machine() }, &BOOT);
        for option in ["-kernel", "-initrd", "-append"] {
            assert_eq!(values(&line, option), [nasty.as_str()], "{option}");
        }
        assert!(!line.iter().any(|word| word.contains("/images/")), "the overlay names its base itself");
    }

    #[test]
    fn a_process_says_which_generation_it_is() {
        assert_eq!(generation_of(&process_name(&"r-1".parse().unwrap(), 42)), Some(42));
        for name in ["", "r-1", "r-1.", "r-1.x", "r-1.-1"] {
            assert_eq!(generation_of(name), None, "{name}");
        }
    }

    use std::net::Ipv4Addr;
}

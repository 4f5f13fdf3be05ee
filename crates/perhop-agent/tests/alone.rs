//! The statically linked program, alone in its file system, as a user without rights.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Agent, finish, integers, job, new_folder, prepare, tcp, udp};
use perhop_agent::Identity;
use serde_json::json;

/// The user and group `nogroup` of Debian, who own nothing.
const NOBODY: u32 = 65_534;

/// Returns the path of the program, linked statically as `make dist` does.
///
/// `make test` has linked it already, with the libraries of the whole workspace.
fn build() -> PathBuf {
    if let Some(linked) = std::env::var_os("PERHOP_STATIC_AGENT") {
        return PathBuf::from(linked);
    }
    let built = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--package", "perhop-agent", "--bin", "perhop-agent"])
        .args(["--message-format", "json", "--", "-C", "target-feature=+crt-static"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success());
    let messages = String::from_utf8(built.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut program = messages.filter_map(|message: serde_json::Value| {
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    program.next_back().unwrap()
}

/// Returns whether a file is a program that needs no dynamic linker (ELF, `PT_INTERP`).
fn is_static(program: &Path) -> bool {
    let bytes = fs::read(program).unwrap();
    let number = |at: usize, size: usize| {
        bytes[at..at + size].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte))
    };
    assert_eq!(&bytes[..6], b"\x7fELF\x02\x01", "64 bits, least significant byte first");
    let (table, entry, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).all(|place| number(table + place * entry, 4) != 3)
}

/// Starts an agent in a root folder with no other file, as a user without rights.
fn start_alone(program: &Path, allowed: &Identity, options: &[&str]) -> Agent {
    let root = new_folder();
    fs::create_dir_all(root.join("state")).unwrap();
    fs::copy(program, root.join("perhop-agent")).unwrap();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&root, 0o755);
    mode(&root.join("perhop-agent"), 0o755);
    // Others than root get the right to change the root folder in a user namespace, which has no
    // rights in the network.
    let mut command = match nix::unistd::geteuid().is_root() {
        true => {
            chown(root.join("state"), Some(NOBODY), Some(NOBODY)).unwrap();
            let mut command = Command::new("chroot");
            command.args([&format!("--userspec={NOBODY}:{NOBODY}"), "--groups="]);
            command
        }
        false => {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "chroot"]);
            command
        }
    };
    command.arg(&root).arg("/perhop-agent");
    Agent::start_program(command, root, Path::new("/state/key"), &allowed.public(), options)
}

#[test]
fn a_static_agent_needs_no_other_file_and_no_rights() {
    let program = build();
    assert!(is_static(&program), "{} needs a dynamic linker", program.display());
    let size = fs::metadata(&program).unwrap().len();
    eprintln!("{size} B");
    let key = Identity::generate();
    let (a, b) = (start_alone(&program, &key, &[]), start_alone(&program, &key, &[]));
    let mut bulk = tcp("bulk", 26_201);
    bulk["volume"] = json!(1_000_000);
    // The one that every user of every host may choose.
    bulk["transport"]["tcp"]["congestion_control"] = json!("reno");
    let flows = [bulk, udp("call", 26_202, 1_000_000)];
    let mut live = prepare(&job(10, &flows, &[]), &a, &b, &key).unwrap();
    live.start().unwrap();
    finish(&live, Duration::from_secs(10));
    assert_eq!(live.failure(), None);
    let [bulk, call] = live.delivered()[..] else { panic!() };
    assert_eq!(bulk, 1_000_000);
    assert!((110_000..=125_500).contains(&call), "{call} B of 125 kB");
    for agent in live.agents() {
        let kernel = agent.facts.iter().find(|(name, _)| *name == "kernel");
        assert!(kernel.is_some_and(|(_, release)| release.contains('.')), "{agent:?}");
    }
    // What it may not measure is named, and absent: congestion marks of TCP, which only packets
    // show.
    let missing = live.missing();
    for node in ["a", "b"] {
        let named = |each: &String| {
            each.contains(&format!("packets of TCP arrive at {node}")) && each.contains("ermi")
        };
        assert!(missing.iter().any(named), "{missing:?}");
    }
    let marked = integers(&live, "intervals", "marked");
    let (absent, zero) =
        (marked.iter().filter(|each| **each == -1), marked.iter().filter(|each| **each == 0));
    assert_eq!((absent.count(), zero.count()), (10, 10), "of TCP and of UDP: {marked:?}");
    // A congestion control that this user may not choose is named, with those that the user may.
    let controls = |kind| {
        let path = format!("/proc/sys/net/ipv4/tcp_{kind}_congestion_control");
        fs::read_to_string(path).unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (available, allowed) = (controls("available"), controls("allowed"));
    // Of those that perhop knows.
    for name in ["cubic", "bbr"].map(str::to_owned) {
        if allowed.contains(&name) || !available.contains(&name) {
            continue;
        }
        let mut fast = tcp("fast", 26_203);
        fast["transport"]["tcp"]["congestion_control"] = json!(name);
        let error = prepare(&job(10, &[fast], &[]), &a, &b, &key).unwrap_err().to_string();
        assert!(error.contains("flow fast: this user may not choose"), "{error}");
        assert!(error.contains("tcp_allowed_congestion_control"), "{error}");
    }
    // A ping needs a raw socket: the reason and the node are named, and nothing begins.
    let ping = json!({"name": "ping", "from": "a", "to": "b", "dscp": 0, "every":
        100_000_000_000_u64, "size": 56, "start": 0, "stop": 500_000_000_000_u64});
    let error = prepare(&job(10, &[], &[ping]), &a, &b, &key).unwrap_err().to_string();
    assert!(error.contains("raw socket") && error.contains("agent a"), "{error}");
}

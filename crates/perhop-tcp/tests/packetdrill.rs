//! Scripts of packetdrill, which pass with Linux 6.18 and packetdrill itself, over the modelled
//! host.

#[path = "packetdrill/host.rs"]
mod host;
#[path = "replay/linux.rs"]
mod linux;
#[path = "packetdrill/run.rs"]
mod run;
#[path = "packetdrill/script.rs"]
mod script;

use std::path::{Path, PathBuf};

use run::{Outcome, run};
use script::{Action, Error, Script, When};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packetdrill/scripts")
}

/// Returns the outcome of a script that differs from one of ours in a text.
fn changed(name: &str, from: &str, to: &str) -> Outcome {
    let text = std::fs::read_to_string(folder().join(name)).expect("it is there");
    assert!(text.contains(from), "{name} has no {from}");
    let copy = tempfile(name, &text.replacen(from, to, 1));
    let outcome = run(&copy);
    std::fs::remove_dir_all(copy.parent().expect("it has a folder")).expect("it can be removed");
    outcome
}

/// Writes a script and the settings beside it into a folder of its own.
fn tempfile(name: &str, text: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let scripts = std::env::temp_dir().join(format!("perhop-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&scripts).expect("a folder can be made");
    std::fs::copy(folder().join("settings.sh"), scripts.join("settings.sh")).expect("it is there");
    std::fs::write(scripts.join(name), text).expect("it can be written");
    scripts.join(name)
}

#[test]
fn scripts_that_pass_with_linux_pass() {
    let scripts = std::fs::read_dir(folder()).expect("there are scripts").flatten();
    let scripts = scripts.map(|entry| entry.path());
    let mut passed = 0;
    for path in scripts.filter(|path| path.extension().is_some_and(|end| end == "pkt")) {
        assert_eq!(run(&path), Outcome::Passed, "{}", path.display());
        passed += 1;
    }
    assert_eq!(passed, 9);
}

#[test]
fn a_script_that_expects_otherwise_fails() {
    let cases = [
        ("slow-start.pkt", "40000) = 40000", "40000) = 29000", "nothing was sent from"),
        ("slow-start.pkt", "10001:18001(8000)", "10001:17001(7000)", ". 17001:18001(1000) ack 1"),
        ("slow-start.pkt", "tcpi_snd_cwnd == 20", "tcpi_snd_cwnd == 21", "AssertionError: 20"),
        ("sack-recovery.pkt", "> . 1:1001", "> . 1001:2001", ". 1:1001(1000) ack 1 was sent"),
        ("sack-recovery.pkt", "tcpi_snd_ssthresh == 7", "tcpi_snd_ssthresh == 5", "AssertionError"),
        ("no-sack.pkt", "> . 5001:6001", "> . 6001:7001", ". 5001:6001(1000) ack 1 was sent"),
        ("probe-and-timeout.pkt", "+.2~+.210", "+.1~+.11", "nothing was sent by 0.2"),
        ("probe-and-timeout.pkt", "+.2~+.210", "+.3~+.31", "was sent at 0."),
        ("marks.pkt", "TCP_CA_CWR, 7", "TCP_CA_CWR, 8", "AssertionError"),
        ("late.pkt", "+.025~+.033", "+.010~+.012", "nothing was sent by 0.2"),
        ("end.pkt", "ack 501 <nop,nop,TS val 300", "ack 502 <nop,nop,TS val 300", "ack 501 was"),
        ("outdated.pkt", "TS val 1069", "TS val 1068", "ack 2001 was sent"),
        ("outdated.pkt", "TS val 1068", "TS val 1069", "SACK [(3001"),
        ("end.pkt", "> F. 1001", "> . 1001", "was sent with F"),
        ("end.pkt", "< P. 1:501(500)", "< P. 2:502(500)", "was sent"),
    ];
    for (name, from, to, what) in cases {
        match changed(name, from, to) {
            Outcome::Failed(_, text) if text.contains(what) => {}
            outcome => panic!("{name} with {to}: {outcome:?}"),
        }
    }
}

#[test]
fn what_is_not_modelled_is_told() {
    let cases = [
        ("marks.pkt", "tcp_ecn=1", "tcp_mtu_probing=1", "tcp_mtu_probing=1"),
        ("marks.pkt", "sysctl -q net.ipv4.tcp_ecn=1", "ip route flush cache", "ip route flush"),
        ("marks.pkt", "tcpi_ca_state,", "tcpi_pmtu,", "tcpi_pmtu"),
        ("end.pkt", "< F.", "< R.", "RST"),
        ("end.pkt", "sackOK,TS", "md5,TS", "md5"),
        ("end.pkt", "+0 read(4, ..., 1000) = 500", "+0 splice(4, 5) = 0", "splice(4, 5) = 0"),
        ("end.pkt", "write(4, ..., 1000) = 1000", "write(4, ..., 1000) = -1 EPIPE", "EPIPE"),
        ("slow-start.pkt", "= 40000", "= 40\n +0 write(4, ..., 40) = 40", "Nagle's algorithm"),
    ];
    for (name, from, to, what) in cases {
        match changed(name, from, to) {
            Outcome::NotRun(error) if error.to_string().contains(what) => {}
            outcome => panic!("{name} with {to}: {outcome:?}"),
        }
    }
}

#[test]
fn scripts_are_read() {
    let text = "// a comment\n--tolerance_usecs=7000\n`one\ntwo`\n 0.5 close(4) = 0 // another\n\
                +.1~+.2 > [ce] PE. 1:11(10) ack 2 win 3 <nop,nop,TS val 4 ecr 5>\n\
                * < . 2:2(0) ack 11 win 9 <mss 6,wscale 7,sackOK,sack 21:31 41:51>\n\
                +0...0.01 connect(3, {a, b}, ...) = -1 EINPROGRESS (why)\n+0 %{ a\nb }%\n";
    let script = Script::read(text).expect("it is a script");
    assert_eq!(script.tolerance, 7_000);
    let places: Vec<_> = script.events.iter().map(|event| (event.line, event.when)).collect();
    let expected = [
        (3, When::Any),
        (5, When::At(500_000, 500_000)),
        (6, When::After(100_000, 200_000)),
        (7, When::Any),
        (8, When::After(0, 0)),
        (9, When::After(0, 0)),
    ];
    assert_eq!(places, expected);
    let actions: Vec<_> = script.events.into_iter().map(|event| event.action).collect();
    let [command, close, sent, taken, connect, code] = actions.as_slice() else { panic!() };
    assert_eq!(*command, Action::Command("one\ntwo".into()));
    assert_eq!(*close, Action::Call("close".into(), vec!["4".into()], "0".into()));
    let Action::Packet(sent) = sent else { panic!() };
    assert_eq!((sent.incoming, sent.marked, sent.flags.as_str()), (false, true, "PE."));
    assert_eq!((sent.start, sent.end, sent.ack, sent.window), (1, 11, Some(2), Some(3)));
    assert_eq!(sent.options.timestamps, Some((4, 5)));
    let Action::Packet(taken) = taken else { panic!() };
    let options = &taken.options;
    assert!(taken.incoming && options.sack_permitted);
    assert_eq!((options.mss, options.scale), (Some(6), Some(7)));
    assert_eq!(options.sack, [(21, 31), (41, 51)]);
    let arguments = ["3", "{a, b}", "..."].map(String::from).to_vec();
    let result = "-1 EINPROGRESS (why)".into();
    assert_eq!(*connect, Action::Call("connect".into(), arguments, result));
    assert_eq!(*code, Action::Code(" a\nb ".into()));
}

#[test]
fn what_is_no_script_is_told_with_its_line() {
    let cases = [
        ("+0 > . 1:3(1) ack 1", 1, "1:3(1) does not have 1 bytes"),
        ("\n+x close(4) = 0", 2, "\"\" is no number"),
        ("+0 close(4", 1, "a call does not end"),
        ("+0 close(4)", 1, "a call has no result"),
        ("+0 `a", 1, "no \"`\" follows"),
        ("+0 > . 1:2(1) ack x", 1, "\"x\" is no number"),
        ("+0 > S 0:0(0) <mss 1", 1, "options do not end"),
        ("+0 a b(4) = 0", 1, "\"a b\" is no system call"),
    ];
    for (text, line, what) in cases {
        assert_eq!(Script::read(text), Err(Error::Malformed(line, what.into())), "{text}");
    }
    for text in ["+0 < udp (1000)", "+0 > . 1:1(0) urg 4", "+0 > S 0:0(0) <FO 1>"] {
        assert!(matches!(Script::read(text), Err(Error::NotModelled(1, _))), "{text}");
    }
}

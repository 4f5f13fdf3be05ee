//! Agents that hold the controller.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use perhop_traffic::Readings;
use serde_json::json;

use super::*;
use crate::channel::Channel;
use crate::frames::{self, HostFacts, LONGEST_REPLY, VERSION};
use crate::limits::Limits;
use crate::tls;

/// What an agent does instead of ending its part of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// It answers questions about the time for ever.
    NeverDone,
    /// It sends all its readings, and then as above.
    DoneWithoutAWord,
    /// It says that it is done before it has sent its readings.
    DoneAtOnce,
    /// It repeats its readings as fast as it can.
    Floods,
    /// It repeats that its sockets are open as fast as it can.
    FloodsBeforeTheStart,
}

const END_MS: u64 = 200;
const ENDING: Duration = Duration::from_millis(500);

fn job() -> Job {
    serde_json::from_value(json!({
        "seed": 1, "marks": [END_MS * 1_000_000_000],
        "nodes": [{"name": "a", "namespace": null, "addresses": ["127.0.0.1"]}],
        "timers": {"min_rto": 1, "delayed_ack": 1},
        "live": {"token": "00".repeat(16), "flows": []},
    }))
    .unwrap()
}

fn last_readings() -> Reply {
    let process = serde_json::to_value(perhop_traffic::ProcessReading::default()).unwrap();
    let readings: Readings = serde_json::from_value(json!({
        "mark": 0, "at": END_MS * 1_000_000_000, "read": END_MS * 1_000_000, "sources": [],
        "destinations": [], "pings": [], "process": process, "warnings": [], "missing": [],
    }))
    .unwrap();
    Reply::Readings(Box::new(readings))
}

/// Serves one controller, until it hangs up.
fn serve(listener: &TcpListener, identity: &Identity, controller: &Identity, manner: Manner) {
    let tls = tls::agent(identity, &[controller.public()]).unwrap();
    let (socket, _) = listener.accept().unwrap();
    let mut channel = Channel::new(socket, tls::accept(&tls).unwrap(), LONGEST_REPLY).unwrap();
    let (mut flood, mut due) = (false, Nanos::MAX);
    loop {
        if channel.progress().is_err() {
            return;
        }
        loop {
            let received = match channel.receive() {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(_) => return,
            };
            match frames::read(&received.frame).unwrap() {
                Request::Hello { .. } => channel.send(&Reply::Hello {
                    version: VERSION,
                    limits: Limits::default(),
                    host: HostFacts::default(),
                }),
                Request::Time { sent } => {
                    let now = monotonic();
                    channel.send(&Reply::Time {
                        sent,
                        received: now,
                        answered: now,
                        realtime_ahead: 0,
                    });
                }
                Request::Prepare { .. } => {
                    flood = manner == Manner::FloodsBeforeTheStart;
                    channel.send(&Reply::Prepared { clock_port: None });
                }
                Request::Prove { .. } => channel.send(&Reply::Proved {}),
                Request::Start { .. } => {
                    channel.send(&Reply::Started {});
                    due = monotonic() + 400_000_000;
                }
                _ => {}
            }
        }
        if monotonic() > due {
            due = Nanos::MAX;
            match manner {
                Manner::DoneWithoutAWord => channel.send(&last_readings()),
                Manner::DoneAtOnce => channel.send(&Reply::Done {}),
                Manner::Floods => flood = true,
                Manner::NeverDone | Manner::FloodsBeforeTheStart => {}
            }
        }
        if flood {
            let reply = match manner {
                Manner::FloodsBeforeTheStart => Reply::Prepared { clock_port: None },
                _ => last_readings(),
            };
            while !channel.wants_write() {
                (0..100).for_each(|_| channel.send(&reply));
                if channel.flush().is_err() {
                    return;
                }
            }
        }
        wait(&[&channel], monotonic() + if flood { 100_000 } else { 20_000_000 });
    }
}

/// Runs the job on such an agent. Returns the error or the failure, the warnings, and how long the
/// run took.
fn run(manner: Manner) -> (Option<String>, Vec<String>, Duration) {
    let (agent, controller) = (Identity::generate(), Identity::generate());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, key) = (listener.local_addr().unwrap(), agent.public());
    let agents = json!([{"node": "a",
        "agent": {"address": address.to_string(), "key": key.to_string()}}]);
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &agent, &controller, manner));
        let begun = Instant::now();
        let mut live = match Live::new(&job(), &agents.to_string(), &controller) {
            Ok(live) => live,
            Err(error) => return (Some(error.to_string()), Vec::new(), begun.elapsed()),
        };
        live.ending = ENDING;
        if let Err(error) = live.start() {
            return (Some(error.to_string()), Vec::new(), begun.elapsed());
        }
        let begun = Instant::now();
        while !live.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{manner:?} holds the controller");
            thread::sleep(Duration::from_millis(10));
        }
        (live.failure(), live.take_warnings(), begun.elapsed())
    })
}

#[test]
fn an_agent_that_never_ends_ends_the_run_as_lost() {
    let (failure, _, took) = run(Manner::NeverDone);
    let failure = failure.unwrap();
    assert!(failure.contains("has not sent its last readings within"), "{failure}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn readings_of_an_agent_that_never_ends_count() {
    let (failure, warnings, took) = run(Manner::DoneWithoutAWord);
    assert_eq!(failure, None);
    assert_eq!(warnings, ["a did not end the run in time"]);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn an_agent_that_ends_before_its_readings_is_lost() {
    let (failure, _, _) = run(Manner::DoneAtOnce);
    assert!(failure.unwrap().contains("over before its end"));
}

#[test]
fn a_flood_of_messages_holds_nobody() {
    let (failure, warnings, took) = run(Manner::Floods);
    assert_eq!((failure, warnings), (None, vec!["a did not end the run in time".to_owned()]));
    assert!(took < Duration::from_secs(10), "{took:?}");
    let (failure, _, took) = run(Manner::FloodsBeforeTheStart);
    assert!(failure.unwrap().contains("unexpected reply"));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

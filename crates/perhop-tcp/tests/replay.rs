//! Recorded connections of Linux, replayed acknowledgement by acknowledgement.

#[path = "replay/linux.rs"]
mod linux;
#[path = "replay/receiving.rs"]
mod receiving;
#[path = "replay/recording.rs"]
mod recording;

/// Connections of Linux 6.18 over a scripted path (`make validate-kernel` records more): losses,
/// bursts of them, reordering, stalls, lost tails, lost and late acknowledgements, duplicates,
/// marks, applications that pause, with and without timestamps and SACK, Reno and CUBIC. The sender
/// sends the same segments in the same order to the end of each.
#[test]
fn linux_sends_the_same_segments() {
    let recordings = include_str!("recordings/linux-6.18.jsonl");
    let outcomes: Vec<_> = recordings.lines().map(recording::replay).collect();
    let differences: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.difference.is_some())
        .map(|outcome| (&outcome.kind, outcome.seed, &outcome.difference, &outcome.window))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
    let mut all = recording::Sum::default();
    outcomes.iter().for_each(|outcome| all.add(outcome));
    assert_eq!((all.recordings, all.acks), (27, 1701));
    assert!(!all.is_below([100.0, 100.0]));
}

/// Linux 6.18 as a receiver, of segments in order, out of order and outdated: what it acknowledges
/// at once, late or together, and the windows that it offers.
#[test]
fn linux_acknowledges_the_same() {
    let recordings = include_str!("recordings/linux-6.18-receiver.jsonl");
    assert!(recordings.lines().all(receiving::is_receiver));
    let mut all = receiving::Outcome::default();
    recordings.lines().for_each(|line| all.add(&receiving::replay(line)));
    let shares = all.shares();
    assert!(all.theirs == 1_351 && shares.iter().all(|share| *share > 99.0), "{shares:?}");
    // Acknowledgements that come at other times are not the same.
    let late = recordings.replace("[\"ack\",", "[\"ack\",9");
    let mut other = receiving::Outcome::default();
    late.lines().for_each(|line| other.add(&receiving::replay(line)));
    assert_eq!((other.theirs, other.same), (all.theirs, 0));
}

/// A segment that Linux sent and the sender does not is a difference, and so is one that Linux did
/// not send.
#[test]
fn differences_are_found() {
    let recordings = include_str!("recordings/linux-6.18.jsonl");
    let line = recordings.lines().next().expect("there are recordings");
    let whole = recording::replay(line);
    assert_eq!(whole.agreed, whole.acks);
    let first = line.find("[\"tx\"").expect("segments are on record");
    let end = first + line[first..].find("],").expect("a segment ends") + 2;
    let less = recording::replay(&format!("{}{}", &line[..first], &line[end..]));
    assert_eq!((less.difference.is_some(), less.agreed), (true, 0));
    assert_eq!(less.class, Some(recording::Class::NewData));
    let other = recording::replay(&line.replacen("1,1000,16", "1,999,16", 1));
    assert_eq!((other.difference.is_some(), other.agreed), (true, 0));
    let mut both = recording::Sum::default();
    [&whole, &other].into_iter().for_each(|outcome| both.add(outcome));
    assert_eq!(both.shares(), [50.0, 50.0]);
    assert!(both.is_below([51.0, 0.0]) && both.is_below([0.0, 51.0]));
    assert!(!both.is_below([50.0, 50.0]));
}

use super::*;

/// Returns a request of each kind, as a controller sends it.
fn requests() -> Vec<Vec<u8>> {
    let job = r#"{"seed":1,"marks":[1000000000,2000000000],"cuts":[0],"nodes":[
        {"name":"a","namespace":0,"addresses":["192.0.2.1"]},
        {"name":"b","namespace":null,"addresses":["2001:db8::1"],"settings":[]}],
        "timers":{"min_rto":200000000000,"delayed_ack":40000000000},
        "flows":[{"name":"f","from":"a","to":"b","dscp":0,"port":5001,"streams":2,"start":0,
        "stop":null,"volume":null,"transport":{"udp":{"rate":1000000,"size":1000,"ecn":null,
        "bursts":null,"replay":{"packets":[[5,100],[7,200]],"repeat":true}}}}],
        "pings":[{"name":"p","from":"a","to":"b","dscp":46,"every":1000000000,
        "size":56,"start":0,"stop":3000000000}],
        "live":{"token":"000102030405060708090a0b0c0d0e0f","flows":[{"opens":"source"}]}}"#;
    let job: Box<Job> = serde_json::from_str(job).unwrap();
    let all = [
        Request::Hello { version: VERSION, program: "perhop 1".into() },
        Request::Time { sent: 12_345 },
        Request::Status {},
        Request::Prepare { node: "a".into(), job },
        Request::Prove {
            within: 1_000_000_000,
            clocks: vec![ClockPeer { node: "b".into(), port: 862 }],
        },
        Request::Clocks {
            clocks: vec![PeerOffset { node: "b".into(), at: 1, offset: -2, rate_ppb: 3, bound: 4 }],
        },
        Request::Start { zero: u64::MAX },
        Request::Stop {},
    ];
    all.iter().map(write).collect()
}

fn replies() -> Vec<Vec<u8>> {
    let all = [
        Reply::Hello {
            version: VERSION,
            limits: Limits::default(),
            host: HostFacts { program: "perhop-agent 1".into(), ..HostFacts::default() },
        },
        Reply::Time { sent: 1, received: 2, answered: 3, realtime_ahead: -4 },
        Reply::Status(Status { sessions: 1, connections: 2, up: 3 }),
        Reply::Prepared { clock_port: Some(50_000) },
        Reply::Readings(Box::default()),
        Reply::Proved {},
        Reply::Started {},
        Reply::Done {},
        Reply::Error { code: ErrorCode::Limit, message: "too much".into() },
    ];
    all.iter().map(write).collect()
}

/// Returns the frames of a stream that arrives in pieces of `size` bytes.
fn frames(stream: &[u8], size: usize, limit: usize) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut decoder = Decoder::new(limit);
    let mut found = Vec::new();
    for piece in stream.chunks(size) {
        decoder.push(piece);
        while let Some(frame) = decoder.next_frame()? {
            found.push(frame);
        }
        assert!(decoder.bytes.len() <= limit + HEAD, "holds more than one frame");
    }
    Ok(found)
}

#[test]
fn frames_are_found_however_they_are_cut() {
    let stream = requests().concat();
    let whole = frames(&stream, stream.len(), LONGEST_REQUEST).unwrap();
    assert_eq!(whole.len(), requests().len());
    for size in [1, 2, 3, 5, 64] {
        assert_eq!(frames(&stream, size, LONGEST_REQUEST).unwrap(), whole);
    }
}

#[test]
fn a_long_frame_is_refused_by_its_head() {
    let mut decoder = Decoder::new(100);
    decoder.push(&101_u32.to_be_bytes());
    assert_eq!(decoder.next_frame(), Err(FrameError::TooLong { length: 101, limit: 100 }));
    let mut decoder = Decoder::new(LONGEST_REQUEST);
    decoder.push(&(LONGEST_REQUEST as u32).to_be_bytes());
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.bytes.capacity() < 100, "nothing is reserved for what was not sent");
}

#[test]
fn what_is_not_a_message_is_refused_with_its_place() {
    for (text, place) in [
        ("", "EOF"),
        ("{}", "expected"),
        (r#"{"time":{"sent":1}} x"#, "trailing"),
        (r#"{"time":{"sent":-1}}"#, "time.sent"),
        (r#"{"time":{"sent":1,"when":2}}"#, "unknown field `when`"),
        // No message raises a limit of the owner.
        (r#"{"limits":{}}"#, "unknown variant `limits`"),
        (r#"{"prepare":{"limits":{}}}"#, "unknown field `limits`"),
        (r#"{"prepare":{"job":{"limits":{}}}}"#, "unknown field `limits`"),
        (r#"{"fire":{}}"#, "unknown variant `fire`"),
        (r#"{"stop":{},"start":{"zero":1}}"#, "expected"),
    ] {
        let error = read::<Request>(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(place), "{text}: {error}");
    }
    let deep = "[".repeat(100_000);
    assert!(read::<Request>(deep.as_bytes()).is_err());
}

/// Decodes a stream up to the first error, and encodes its messages again.
fn decode<M: DeserializeOwned + Serialize>(bytes: &[u8]) -> bool {
    let Ok(frames) = frames(bytes, 7, 1 << 16) else { return false };
    let mut taken = false;
    for frame in frames {
        let Ok(message) = read::<M>(&frame) else { return false };
        let again = write(&message);
        assert_eq!(write(&read::<M>(&again[HEAD..]).unwrap()), again);
        taken = true;
    }
    taken
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Fuzzes one direction, and checks that memory does not grow with the number of inputs.
fn fuzz<M: DeserializeOwned + Serialize>(target: &str, messages: &[Vec<u8>]) {
    let mut seeds = messages.to_vec();
    seeds.push(messages.concat());
    let before = resident();
    perhop_fuzz::fuzz_slow(target, &seeds, decode::<M>);
    let after = resident();
    eprintln!("{target}: {} kiB before, {} kiB after", before >> 10, after >> 10);
    assert!(after < before + (64 << 20), "{before} B grew to {after} B");
}

#[test]
fn fuzz_requests() {
    fuzz::<Request>("agent-requests", &requests());
}

#[test]
fn fuzz_replies() {
    fuzz::<Reply>("agent-replies", &replies());
}

#[test]
fn errors_repeat_no_control_characters_of_a_message() {
    let hostile = "{\"a\\u001b[2J\\u009b\\u202e\":{}}";
    let error = read::<Reply>(hostile.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("unknown variant"), "{error}");
    assert!(!error.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{error:?}");
}

use perhop_fuzz::fuzz;
use proptest::prelude::*;

use super::*;

/// Returns the result of the filter for an incoming packet, as the kernel computes it.
fn run(program: &[Instruction], packet: &[u8]) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0_usize);
    let byte = |at: u32| packet.get(at as usize).copied().map(u32::from);
    let half = |at: u32| Some(byte(at)? << 8 | byte(at + 1)?);
    loop {
        let Instruction { code, jump_true, jump_false, k } = program[at];
        at += 1;
        let loaded = match code {
            LD_W_ABS if k == SKF_AD_PKTTYPE => Some(0),
            LD_B_ABS => byte(k),
            LD_H_ABS => half(k),
            LD_H_IND => half(x + k),
            LD_MEM => Some(memory[k as usize]),
            LDX_B_MSH => {
                x = byte(k).map_or(0, |byte| (byte & 15) * 4);
                Some(a)
            }
            LDX_IMM => {
                x = k;
                Some(a)
            }
            ST => {
                memory[k as usize] = a;
                Some(a)
            }
            AND => Some(a & k),
            RSH => Some(a >> k),
            JEQ => {
                at += usize::from(if a == k { jump_true } else { jump_false });
                Some(a)
            }
            JA => {
                at += k as usize;
                Some(a)
            }
            RET => return k,
            other => panic!("{other:#x}"),
        };
        // The kernel drops a packet if the filter reads beyond its end.
        let Some(value) = loaded else { return 0 };
        a = value;
    }
}

fn packet(v6: bool, class: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut bytes = vec![0; if v6 { 40 } else { 24 }];
    if v6 {
        bytes[..2].copy_from_slice(&(6 << 12 | u16::from(class) << 4).to_be_bytes());
        bytes[4..6].copy_from_slice(&1020_u16.to_be_bytes());
        bytes[6] = 6;
    } else {
        bytes[..2].copy_from_slice(&[0x46, class]); // with an option
        bytes[2..4].copy_from_slice(&1044_u16.to_be_bytes());
        bytes[9] = 6;
    }
    bytes.extend(ports.map(u16::to_be_bytes).as_flattened());
    bytes.resize(bytes.len() + 8, 0);
    bytes.extend([5 << 4, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

const EXPECTED: [Expected; 3] = [
    Expected { port: 5001, to_port: true, class: TrafficClass::from_octet(46 << 2) },
    Expected { port: 5002, to_port: true, class: TrafficClass::from_octet(2) },
    Expected { port: 5003, to_port: false, class: TrafficClass::from_octet(8 << 2) },
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_has_another_mark_is_kept(
        v6: bool, class: u8, usual in 0..4_usize, from in 5000..5005_u16, to in 5000..5005_u16,
    ) {
        // Many of the packets have a mark that one of the flows expects.
        let class = EXPECTED.get(usual).map_or(class, |each| each.class.octet());
        let bytes = packet(v6, class, [from, to]);
        let first = EXPECTED.iter().find(|each| each.port == if each.to_port { to } else { from });
        let kept = first.is_some_and(|each| each.class.octet() != class);
        prop_assert_eq!(run(&filter(&EXPECTED), &bytes) > 0, kept);
        let parsed = parse(&bytes).unwrap();
        prop_assert_eq!((parsed.from.port(), parsed.to.port()), (from, to));
        prop_assert_eq!((parsed.class.octet(), parsed.payload), (class, 1000));
        for length in 0..bytes.len() - 7 {
            prop_assert_eq!(parse(&bytes[..length]), None);
        }
    }
}

#[test]
fn fuzz_taps() {
    let seeds = [packet(false, 46 << 2, [5001, 9]), packet(true, 2, [9, 5002])];
    let program = filter(&EXPECTED);
    fuzz("taps", &seeds, |bytes| {
        let parsed = parse(bytes);
        assert!(parsed.is_none_or(|packet| packet.payload <= 40 + 0xffff));
        // The filter terminates, and reads only data that the kernel permits.
        let _ = run(&program, bytes);
        parsed.is_some()
    });
}

#[test]
fn the_kernel_takes_the_filter() {
    let many: Vec<_> = (0..2000)
        .map(|port| Expected { port, to_port: true, class: TrafficClass::default() })
        .collect();
    for expected in [&EXPECTED[..], &[], &many] {
        match open(expected) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            other => other.map(|_| ()).unwrap(),
        }
    }
}

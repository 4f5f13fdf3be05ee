//! Channels that several senders share, against published formulas.

use perhop_core::{Duration, Stream, Time};
use perhop_net::{Loss, Network, PortId, Wifi};

use crate::lab::*;

const SIZE: u32 = 1500;

/// 802.11g at 5 GHz, without aggregation, and with as many retries as it takes.
fn plain() -> Wifi {
    Wifi {
        slot: Duration::from_micros(9),
        sifs: Duration::from_micros(16),
        aifsn: 2,
        cw_min: 15,
        cw_max: 1023,
        preamble: Duration::from_micros(20),
        symbol: Duration::from_micros(4),
        ack: Duration::from_micros(28),
        block_ack: Duration::from_micros(32),
        header: 36,
        frames: 1,
        bytes: 65_535,
        airtime: Duration::from_millis(4),
        retries: 1000,
        airtime_fairness: false,
    }
}

/// 802.11n with aggregates of up to 64 frames.
fn aggregating() -> Wifi {
    Wifi { frames: 64, aifsn: 3, header: 38, preamble: Duration::from_micros(36), ..plain() }
}

/// Returns an access point (node 0), stations with these rates in Mb/s, and their channel.
fn cell(rates: &[u64], config: Wifi, change: impl Fn(&mut perhop_net::Wire)) -> Network<Line> {
    let nodes = vec![Host; rates.len() + 1];
    let links = rates.iter().enumerate().map(|(number, rate)| {
        let mut medium = wire(rate * 1_000_000, 0);
        change(&mut medium);
        link([0, number as u16 + 1], medium)
    });
    let mut network = Network::new(&nodes, links.collect(), 1).unwrap();
    let ports: Vec<PortId> = network.ports().collect();
    network.share(&ports, config, Stream::new(1, "channel"));
    network
}

/// Has nodes send `count` packets each at once, and returns the goodput of each in bit/s while all
/// still have some: by source or by destination.
fn goodput(
    mut network: Network<Line>,
    ways: &[(u16, u16)],
    count: usize,
    seconds: f64,
) -> Vec<f64> {
    let script: Vec<Send> = (0..count)
        .flat_map(|_| ways.iter().map(|&(from, to)| Send { at: 0, from, to, size: SIZE }))
        .collect();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::from_picos((seconds * 1e12) as u64), &mut hosts);
    let mut arrived = vec![0; ways.len()];
    for (_, _, line) in &hosts.arrivals {
        arrived[*line as usize % ways.len()] += 1;
    }
    assert!(arrived.iter().all(|&number| number < count), "a sender has nothing left: {arrived:?}");
    arrived.iter().map(|&number| f64::from(SIZE) * 8.0 * number as f64 / seconds).collect()
}

/// Returns the duration in seconds of a transmission of so many bytes with OFDM.
fn transmission_s(config: Wifi, bytes: u32, rate: f64) -> f64 {
    let symbols = (f64::from(22 + 8 * bytes) / (rate * 4e-6)).ceil();
    config.preamble.as_secs_f64() + 4e-6 * symbols
}

fn aifs_s(config: Wifi) -> f64 {
    config.sifs.as_secs_f64() + f64::from(config.aifsn) * config.slot.as_secs_f64()
}

/// Returns the mean time for which the channel is idle between exchanges of a single sender.
fn idle_s(config: Wifi) -> f64 {
    aifs_s(config) + f64::from(config.cw_min) / 2.0 * config.slot.as_secs_f64()
}

/// Saturation throughput in bit/s of `n` stations by G. Bianchi, *Performance Analysis of the IEEE
/// 802.11 Distributed Coordination Function*, IEEE JSAC 18 (2000), equations 7, 9 and 13.
fn bianchi(config: Wifi, n: i32, rate: f64) -> f64 {
    let w = f64::from(config.cw_min + 1);
    let m = (f64::from(config.cw_max + 1) / w).log2() as i32;
    let tau_of = |p: f64| {
        let other = p * w * (0..m).map(|i| (2.0 * p).powi(i)).sum::<f64>();
        2.0 / (1.0 + w + other)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let p = (low + high) / 2.0;
        if 1.0 - (1.0 - tau_of(p)).powi(n - 1) > p { low = p } else { high = p }
    }
    let tau = tau_of(low);
    let any = 1.0 - (1.0 - tau).powi(n);
    let success = f64::from(n) * tau * (1.0 - tau).powi(n - 1) / any;
    // Failures take as long as successes: senders wait for the acknowledgement.
    let busy = transmission_s(config, SIZE + config.header, rate)
        + (config.sifs + config.ack).as_secs_f64()
        + aifs_s(config);
    let slot = config.slot.as_secs_f64();
    any * success * f64::from(8 * SIZE) / ((1.0 - any) * slot + any * busy)
}

#[test]
fn saturated_stations_have_the_throughput_of_bianchis_formula() {
    for n in [2, 5, 10, 20] {
        let rates = vec![54; n];
        let ways: Vec<(u16, u16)> = (1..=n as u16).map(|station| (station, 0)).collect();
        let each = goodput(cell(&rates, plain(), |_| ()), &ways, 24_000 / n, 4.0);
        let (measured, expected) = (each.iter().sum::<f64>(), bianchi(plain(), n as i32, 54e6));
        println!("{n} stations: {:.2} Mb/s, by the formula {:.2}", measured / 1e6, expected / 1e6);
        assert!((measured / expected - 1.0).abs() < 0.03, "{n}: {measured} {expected}");
    }
}

/// M. Heusse et al., *Performance Anomaly of 802.11b*, INFOCOM 2003: senders with equal chances of
/// access have equal throughputs, whatever their rates.
#[test]
fn a_slow_receiver_slows_all_down_unless_time_is_shared() {
    let rates = [54, 54, 6];
    let ways = [(0, 1), (0, 2), (0, 3)];
    let exchange = |rate: u64| {
        let config = plain();
        idle_s(config)
            + transmission_s(config, SIZE + config.header, rate as f64 * 1e6)
            + (config.sifs + config.ack).as_secs_f64()
    };
    // Turns: a packet each in the time of three exchanges.
    let cycle: f64 = rates.iter().map(|&rate| exchange(rate)).sum();
    let turns = goodput(cell(&rates, plain(), |_| ()), &ways, 2_000, 4.0);
    for each in &turns {
        assert!((each * cycle / f64::from(8 * SIZE) - 1.0).abs() < 0.02, "{turns:?}");
    }
    // Equal times on the channel: a third of the transmissions' time for each.
    let fair = Wifi { airtime_fairness: true, ..plain() };
    let shared = goodput(cell(&rates, fair, |_| ()), &ways, 10_000, 4.0);
    let airtime: Vec<f64> = shared
        .iter()
        .zip(rates)
        .map(|(rate, physical)| rate * (exchange(physical) - idle_s(plain())))
        .collect();
    for each in &airtime {
        assert!((each / airtime[0] - 1.0).abs() < 0.02, "{airtime:?}");
    }
    assert!(shared[0] > 2.0 * turns[0] && shared[2] < turns[2]);
}

#[test]
fn stations_of_any_rate_have_equal_throughputs() {
    let each = goodput(cell(&[54, 6], plain(), |_| ()), &[(1, 0), (2, 0)], 2_000, 4.0);
    assert!((each[0] / each[1] - 1.0).abs() < 0.05, "{each:?}");
}

#[test]
fn an_aggregate_has_one_overhead() {
    let config = aggregating();
    let frame = (SIZE + config.header).next_multiple_of(4) + 4;
    // 65 Mb/s: as many frames as fit into 4 ms. 300 Mb/s: as many as fit into 65,535 bytes.
    for (rate, frames) in [(65, 20), (300, 42)] {
        let duration = |frames| transmission_s(config, frames * frame, rate as f64 * 1e6);
        assert!(duration(frames) <= 4e-3 && frames * frame <= config.bytes);
        assert!(duration(frames + 1) > 4e-3 || (frames + 1) * frame > config.bytes);
        let exchange =
            idle_s(config) + duration(frames) + (config.sifs + config.block_ack).as_secs_f64();
        let expected = f64::from(frames * SIZE * 8) / exchange;
        let measured = goodput(cell(&[rate], config, |_| ()), &[(0, 1)], 60_000, 2.0)[0];
        assert!((measured / expected - 1.0).abs() < 0.01, "{rate}: {measured} {expected}");
    }
}

#[test]
fn frames_that_are_lost_are_sent_again_and_released_in_order() {
    for (config, loss) in [(aggregating(), 300_000_000), (plain(), 300_000_000)] {
        let mut network = cell(&[54, 54], config, |wire| wire.loss = loss);
        let ways = [(0, 1), (1, 0), (0, 2), (2, 0)];
        let script = (0..4_000).map(|line| {
            let (from, to) = ways[line % 4];
            Send { at: line as u64 * 300 * MICROSECOND, from, to, size: 200 + line as u32 % 1300 }
        });
        let mut hosts = Scripted::new(script.collect(), &mut network);
        network.run(Time::MAX, &mut hosts);
        assert_eq!(hosts.losses, []);
        for way in 0..4 {
            let lines: Vec<u32> =
                hosts.arrivals.iter().map(|each| each.2).filter(|line| line % 4 == way).collect();
            assert_eq!(lines, (0..4_000).filter(|line| line % 4 == way).collect::<Vec<u32>>());
        }
    }
}

#[test]
fn a_frame_is_given_up_after_its_retries() {
    let config = Wifi { retries: 2, ..aggregating() };
    let mut network = cell(&[54], config, |wire| wire.loss = 500_000_000);
    let script = (0..8_000).map(|_| Send { at: 0, from: 0, to: 1, size: 500 }).collect();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::MAX, &mut hosts);
    // A packet is lost if three transmissions in a row are: an eighth, give or take.
    let lost = hosts.losses.iter().filter(|(_, loss)| *loss == Loss::Link).count();
    assert!((900..1_100).contains(&lost), "{lost}");
    assert_eq!(lost + hosts.arrivals.len(), 8_000);
    assert_eq!(network.link_counters(forth(0)).lost, lost as u64);
}

#[test]
fn a_link_that_is_down_leaves_the_channel_to_others() {
    let mut network = cell(&[54, 54], plain(), |_| ());
    let script =
        (0..40).map(|line| Send { at: 0, from: 0, to: 1 + line % 2, size: SIZE }).collect();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::ZERO, &mut hosts);
    network.set_up(0, false);
    network.run(Time::from_picos(SECOND), &mut hosts);
    assert_eq!(hosts.arrivals.len(), 20);
    network.set_up(0, true);
    network.run(Time::from_picos(2 * SECOND), &mut hosts);
    assert_eq!((hosts.arrivals.len(), hosts.losses.len()), (40, 0));
}

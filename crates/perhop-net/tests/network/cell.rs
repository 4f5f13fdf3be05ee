//! Cells with a base station that schedules, against formulas.

use perhop_core::{Duration, NodeId, Stream, Time};
use perhop_net::{Access, Loss, Lte, Network, PortId, Scheduler, Trace, TraceStep};
use proptest::prelude::*;

use crate::lab::*;

/// 20 MHz, and the defaults of scenarios.
const LTE: Lte = Lte {
    resource_blocks: 100,
    scheduler: Scheduler::ProportionalFair,
    bler: 100_000_000,
    retries: 3,
    combining: 200_000_000,
    request_period: Duration::from_millis(10),
    grant: Duration::from_millis(8),
    reordering: Duration::from_millis(35),
};

/// No transmission fails.
const CLEAN: Lte = Lte { bler: 0, ..LTE };

/// Returns a base station (node 0), users with these rates in kb/s, and their cell.
fn cell(rates: &[u64], lte: Lte) -> Network<Line> {
    let nodes = vec![Host; rates.len() + 1];
    let links = rates
        .iter()
        .enumerate()
        .map(|(user, rate)| link([0, user as u16 + 1], wire(rate * 1000, 0)));
    let mut network = Network::new(&nodes, links.collect(), 1).unwrap();
    let ports: Vec<PortId> = network.ports().collect();
    network.share(&ports, Access::Lte { base: NodeId(0), lte }, Stream::new(1, "cell"));
    network
}

/// Has nodes send `count` packets of `size` each at once, and returns how many have arrived after a
/// number of TTIs, by source and destination.
fn arrived(
    mut network: Network<Line>,
    ways: &[(u16, u16)],
    (count, size): (usize, u32),
    ttis: u64,
) -> Vec<u64> {
    let script: Vec<Send> = (0..count)
        .flat_map(|_| ways.iter().map(|&(from, to)| Send { at: 0, from, to, size }))
        .collect();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::from_picos(ttis * MILLISECOND), &mut hosts);
    let mut arrived = vec![0; ways.len()];
    for (_, _, line) in &hosts.arrivals {
        arrived[*line as usize % ways.len()] += 1;
    }
    assert!(arrived.iter().all(|&number| number < count as u64), "nothing is left: {arrived:?}");
    arrived
}

/// Sends packets one by one, and returns the time of each on its way, in milliseconds.
fn delays(mut network: Network<Line>, script: Vec<Send>) -> Vec<f64> {
    let mut hosts = Scripted::new(script.clone(), &mut network);
    network.run(Time::MAX, &mut hosts);
    let times = hosts.arrived();
    let on_way = script.iter().zip(times).map(|(send, at)| at.expect("none is lost") - send.at);
    on_way.map(|time| time as f64 / MILLISECOND as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Probability that a transmission fails after so many failures.
fn error(lte: Lte, failures: i32) -> f64 {
    f64::from(lte.bler) / 1e9 * (f64::from(lte.combining) / 1e9).powi(failures)
}

/// Mean number of transmissions of a block that arrives by HARQ.
fn transmissions(lte: Lte) -> f64 {
    let still = |failures: u32| (0..failures as i32).map(|k| error(lte, k)).product::<f64>();
    (0..=lte.retries).map(still).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Segmentation and concatenation lose no byte: each TTI carries what the rate gives.
    #[test]
    fn a_user_gets_full_blocks_whatever_the_sizes(
        rate in 800_u64..80_000, size in 20_u32..3_000, ttis in 20_u64..200,
    ) {
        let most = rate * 1000 * ttis / 8_000 / u64::from(size) + 10;
        let load = (most as usize, size);
        let down = arrived(cell(&[rate], CLEAN), &[(0, 1)], load, ttis)[0];
        prop_assert_eq!(down, (rate * 1000 / 8_000) * ttis / u64::from(size));
        // The first grant comes 8 TTIs after the request in the first one.
        let up = arrived(cell(&[rate], CLEAN), &[(1, 0)], load, ttis)[0];
        prop_assert_eq!(up, (rate * 1000 / 8_000) * (ttis - 8) / u64::from(size));
    }
}

#[test]
fn retransmissions_take_their_share_of_the_blocks() {
    for (bler, combining, retries) in
        [(100_000_000, 200_000_000, 3), (300_000_000, 500_000_000, 3), (200_000_000, 0, 1)]
    {
        let lte = Lte { bler, combining, retries, ..LTE };
        let ttis = 30_000;
        let bytes =
            1_000.0 * arrived(cell(&[8_000], lte), &[(0, 1)], (31_000, 1_000), ttis)[0] as f64;
        let residual: f64 = (0..=retries as i32).map(|k| error(lte, k)).product();
        // RLC begins again with a block that HARQ gives up.
        let expected = ttis as f64 * 1_000.0 / transmissions(lte) * (1.0 - residual);
        assert!((bytes / expected - 1.0).abs() < 0.01, "{lte:?}: {bytes} {expected}");
    }
}

#[test]
fn equal_users_have_equal_shares() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::ProportionalFair] {
        for (users, up) in [(2, false), (5, false), (3, true), (16, true)] {
            let lte = Lte { scheduler, ..LTE };
            let ways: Vec<(u16, u16)> =
                (1..=users).map(|user| if up { (user, 0) } else { (0, user) }).collect();
            let rates = vec![16_000; usize::from(users)];
            let ttis = 10_000;
            let each = arrived(cell(&rates, lte), &ways, (20_000 / ways.len(), 1_400), ttis);
            let all = (2_000 * ttis) as f64 / transmissions(lte) / 1_400.0;
            for got in &each {
                let share = *got as f64 / all * f64::from(users);
                assert!((share - 1.0).abs() < 0.02, "{scheduler:?} {each:?} {all}");
            }
        }
    }
}

#[test]
fn proportional_fairness_gives_equal_times_at_unequal_rates() {
    let rates = [60_000, 20_000, 5_000, 1_000];
    let ways = [(0, 1), (0, 2), (0, 3), (0, 4)];
    let each = arrived(cell(&rates, LTE), &ways, (40_000, 1_000), 16_000);
    for (got, rate) in each.iter().zip(rates) {
        let share = *got as f64 * 8_000.0 / (rate * 1000) as f64 / 16.0 * transmissions(LTE);
        assert!((share - 0.25).abs() < 0.01, "{each:?}: {share}");
    }
}

/// Returns a rate that alternates between these rates in kb/s, every 20 ms.
fn alternating(rates: [u64; 2]) -> Trace {
    let step = |(number, rate)| TraceStep {
        at: Duration::from_millis(20 * number),
        rate: rate * 1000,
        medium: None,
    };
    Trace::new((0_u64..).zip(rates).map(step).collect(), Some(Duration::from_millis(40))).unwrap()
}

#[test]
fn a_tti_carries_what_a_trace_offers() {
    let mut network = cell(&[8_000], CLEAN);
    network.set_trace(forth(0), alternating([8_000, 0]));
    assert_eq!(arrived(network, &[(0, 1)], (6_000, 100), 1_000), [5_000]);
    // An opportunity of mahimahi every 5 ms, for 1500 bytes.
    let mut network = cell(&[8_000], CLEAN);
    network.set_trace(forth(0), Trace::opportunities(&[5]).unwrap());
    assert_eq!(arrived(network, &[(0, 1)], (6_000, 100), 1_000), [3_000]);
    // A packet waits for the end of an outage.
    let mut network = cell(&[8_000], CLEAN);
    network.set_trace(forth(0), alternating([8_000, 0]));
    let late = delays(network, vec![Send { at: 25 * MILLISECOND, from: 0, to: 1, size: 100 }]);
    assert_eq!(late, [16.0]);
}

#[test]
fn proportional_fairness_sends_to_users_at_their_best() {
    let ways = [(0, 1), (0, 2)];
    let mut each = [Scheduler::RoundRobin, Scheduler::ProportionalFair].map(|scheduler| {
        let mut network = cell(&[8_000; 2], Lte { scheduler, ..CLEAN });
        network.set_trace(forth(0), alternating([16_000, 4_000]));
        network.set_trace(forth(1), alternating([4_000, 16_000]));
        arrived(network, &ways, (20_000, 250), 4_000)
    });
    // In turn, half of the mean of 10 Mb/s; at their best, half of 16 Mb/s.
    each.iter_mut().flatten().for_each(|packets| *packets = *packets * 2 / 4);
    let [turns, fair] = each;
    assert!(turns.iter().all(|&rate| rate.abs_diff(5_000) < 50), "{turns:?}");
    assert!(fair.iter().all(|&rate| rate.abs_diff(8_000) < 300), "{fair:?}");
}

#[test]
fn users_with_little_data_share_a_tti() {
    let rates = [8_000; 10];
    let script = (0..10).map(|user| Send { at: 1, from: 0, to: user + 1, size: 100 }).collect();
    // Ten resource blocks each of the hundred.
    let on_way = delays(cell(&rates, CLEAN), script);
    assert!(on_way.iter().all(|delay| (delay - 2.0).abs() < 1e-6), "{on_way:?}");
}

#[test]
fn an_idle_user_waits_for_a_tti_and_for_a_grant() {
    let count = 2_000;
    let every = 101 * MILLISECOND + 379 * MICROSECOND; // at all phases of the requests
    let script = |from, to| -> Vec<Send> {
        (1..=count).map(|number| Send { at: number * every, from, to, size: 84 }).collect()
    };
    let down = delays(cell(&[30_000], CLEAN), script(0, 1));
    // Until the next TTI, and a TTI.
    assert!(down.iter().all(|&delay| (1.0..=2.0).contains(&delay)));
    assert!((mean(&down) - 1.5).abs() < 0.02, "{}", mean(&down));
    let up = delays(cell(&[30_000], CLEAN), script(1, 0));
    // Until the next request, a grant, and a TTI.
    assert!(up.iter().all(|&delay| (9.0..=19.0).contains(&delay)));
    assert!((mean(&up) - 14.0).abs() < 0.1, "{}", mean(&up));
    assert!(up.iter().any(|&delay| delay < 9.1) && up.iter().any(|&delay| delay > 18.9));
}

#[test]
fn packets_wait_for_blocks_that_are_sent_again() {
    // The TTIs are eight series of transmissions: each ends with that of a block that arrives. A
    // packet arrives at once if none of the other seven is open, its TTI has no retransmission, and
    // its block arrives.
    let count = 40_000;
    let script = (0..count).map(|tti| Send { at: tti * MILLISECOND, from: 0, to: 1, size: 200 });
    let on_way = delays(cell(&[8_000], LTE), script.collect());
    let at_once = (1.0 - error(LTE, 0)) / transmissions(LTE).powi(8);
    let share = on_way.iter().filter(|&&delay| delay < 1.5).count() as f64 / count as f64;
    assert!((share / at_once - 1.0).abs() < 0.02, "{share} {at_once}");
    let most = on_way.iter().copied().fold(0.0, f64::max);
    assert!(most > 8.9 && most < 26.5, "{most}");
}

#[test]
fn rlc_sends_blocks_again_that_harq_gave_up() {
    let lte = Lte { retries: 0, bler: 50_000_000, ..LTE };
    let script =
        (0..2_000).map(|number| Send { at: number * 200 * MILLISECOND, from: 0, to: 1, size: 200 });
    let mut on_way = delays(cell(&[8_000], lte), script.collect());
    on_way.sort_by(f64::total_cmp);
    // Reported 35 ms after the transmission, and sent again 8 ms later.
    let late: Vec<f64> = on_way.into_iter().filter(|&delay| delay > 1.5).collect();
    assert!((70..130).contains(&late.len()), "{}", late.len());
    assert!(
        (late[0] - 44.0).abs() < 1e-6 && (late[late.len() / 2] - 44.0).abs() < 1e-6,
        "{late:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every packet arrives once and in order, in both directions, whatever fails and whenever
    /// links are down.
    #[test]
    fn packets_are_conserved_and_in_order(
        rates in prop::collection::vec(800_u64..40_000, 1..5),
        sends in prop::collection::vec(
            (0..4 * MILLISECOND, any::<bool>(), 1_u16..5, 20_u32..1_600), 1..200,
        ),
        (bler, combining, retries) in (0_u32..900_000_000, 0_u32..=1_000_000_000, 0_u32..4),
        (fair, grant, period) in (any::<bool>(), 0_u64..12, 1_u64..20),
        down in prop::collection::vec((0_usize..4, 1_u64..40, 1_u64..40), 0..4),
    ) {
        let scheduler = [Scheduler::RoundRobin, Scheduler::ProportionalFair][usize::from(fair)];
        let lte = Lte {
            bler, combining, retries, scheduler,
            grant: Duration::from_millis(grant),
            request_period: Duration::from_millis(period),
            ..LTE
        };
        let mut network = cell(&rates, lte);
        let mut at = 0;
        let script: Vec<Send> = sends.iter().map(|&(gap, up, user, size)| {
            at += gap;
            let user = 1 + (user - 1) % rates.len() as u16;
            let (from, to) = if up { (user, 0) } else { (0, user) };
            Send { at, from, to, size }
        }).collect();
        let mut hosts = Scripted::new(script.clone(), &mut network);
        let mut now = 0;
        for (user, after, length) in down {
            let link = (user % rates.len()) as u32;
            for (up, wait) in [(false, after), (true, length)] {
                now += wait * MILLISECOND + 250 * MICROSECOND;
                network.run(Time::from_picos(now), &mut hosts);
                network.set_up(link, up);
            }
        }
        network.run(Time::MAX, &mut hosts);
        prop_assert!(hosts.losses.iter().all(|(_, loss)| *loss == Loss::NoRoute), "when down");
        prop_assert_eq!(hosts.arrivals.len() + hosts.losses.len(), script.len());
        for (from, to) in (1..=rates.len() as u16).flat_map(|user| [(0, user), (user, 0)]) {
            let own = |line: &u32| {
                let send = script[*line as usize];
                (send.from, send.to) == (from, to)
            };
            let lines: Vec<u32> = hosts.arrivals.iter().map(|each| each.2).filter(own).collect();
            prop_assert!(lines.is_sorted());
            prop_assert!(lines.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}

//! A path, hop by hop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use perhop_core::{Stream, TrafficClass};
use perhop_socket::{Nanos, monotonic};
use serde::Deserialize;

use crate::answer::{Answer, Kind};
use crate::hops::{Mark, Method, Retest, Silence, judge, reference, rewrites};
use crate::mtu::{HopMtu, MtuHop, MtuSearch, Outcome};
use crate::multipath::{HopFlow, Multipath, Node};
use crate::probe::{Probe, ProbeProtocol};
use crate::prober::{Ends, GoOn, Observation, ProbeError, Prober, random};
use crate::report::{Address, Hop, LinkBetween, MarkSeen, Report};
use crate::statistics::Spread;
use crate::trains;

/// Settings of the probing of a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Destination address.
    pub destination: IpAddr,
    /// Source address; by default that of the route.
    #[serde(default)]
    pub source: Option<IpAddr>,
    /// Protocol of the probes.
    #[serde(default)]
    pub protocol: ProbeProtocol,
    /// Source port of the first flow, or identifier of its echo requests.
    #[serde(default)]
    pub source_port: Option<u16>,
    /// Destination port of UDP probes.
    pub port: u16,
    /// IPv6 flow label of the first flow.
    #[serde(default)]
    pub flow_label: Option<u32>,
    /// Traffic classes of the probes, as octets: DSCP and ECN. At least one.
    pub marks: Vec<u8>,
    /// Probes per hop and mark.
    pub count: u32,
    /// Greatest time to live.
    pub max_hops: u8,
    /// Probes a second at most, at least one.
    pub rate: u32,
    /// Probability with which all next hops of a router are to be found.
    pub confidence: f64,
    /// True if parallel paths are enumerated.
    pub multipath: bool,
    /// True if the path MTU is measured.
    pub mtu: bool,
    /// True if the capacity of each hop's link is measured.
    pub capacity: bool,
    /// Bytes that measuring capacities may send.
    pub volume: u64,
    /// Seconds after which probing ends with an error.
    pub limit_s: u64,
}

impl Settings {
    fn ends(&self) -> Ends {
        Ends {
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            source_port: self.source_port,
            destination_port: self.port,
            flow_label: self.flow_label,
        }
    }
}

/// Length of the packets that measure capacities, at most: that of Ethernet's packets.
const USUAL_MTU: u32 = 1500;
const MILLISECOND: Nanos = 1_000_000;
/// Time limit of answers before any round-trip time is known.
const FIRST_TIMEOUT: Nanos = 1_000 * MILLISECOND;
/// Bounds of the time limit of answers after that.
const MIN_TIMEOUT: Nanos = 300 * MILLISECOND;
const MAX_TIMEOUT: Nanos = 3_000 * MILLISECOND;
/// Probes that may wait for answers at the same time: fewer than there are identities.
const AT_ONCE: usize = 10_000;
/// Hops that are tried at once.
const WINDOW: u8 = 8;
/// Time between probes to routers that limit their errors: Cisco's default allows one in 500 ms.
const SLOW: Nanos = 600 * MILLISECOND;
/// Time between probes to a hop that may limit its errors to one in a second, as Linux does
/// (icmp_ratelimit), and the number of such probes that tell loss from a limit.
const SPACED: Nanos = 1_100 * MILLISECOND;
const SPACED_PROBES: usize = 10;
/// Echo requests that tell loss from a limit, at least.
const ECHO_REQUESTS: usize = 30;
/// Time to live of echo requests.
const ECHO_TTL: u8 = 64;
/// Passes of such probes.
const SLOW_PASSES: usize = 4;
/// Hops beyond the destination's distance, for flows that take longer paths.
const DETOUR: u8 = 4;

/// Probes a path. If the time is over before the end, the report has what was measured until then.
///
/// # Errors
/// [`ProbeError`] if sockets cannot be used, `go_on` answers false, or the time is over before any
/// answer.
pub fn trace(settings: &Settings, go_on: GoOn) -> Result<Report, ProbeError> {
    let prober = Prober::new(&settings.ends(), settings.limit_s, go_on)?;
    let gap = 1_000 * MILLISECOND / Nanos::from(settings.rate.max(1));
    let mut tracer =
        Tracer { settings, prober, gap, timeout: FIRST_TIMEOUT, unfinished: Vec::new() };
    let mut found = Found::default();
    let discovered = tracer.discover(&mut found);
    if found.answers.is_empty() {
        discovered?;
    } else {
        tracer.within("hops", discovered)?;
    }
    let mut paths = tracer.paths(&found);
    if settings.multipath {
        let searched = tracer.multipath(&mut paths);
        tracer.within("parallel paths", searched)?;
    }
    let answering: BTreeSet<u8> = (1..=found.hops).filter(|&ttl| paths.answers(ttl)).collect();
    let mut series = Series::new();
    let probed = tracer.rounds(found.hops, &answering, &mut series);
    tracer.within("marks and loss", probed)?;
    let judged = tracer.judge(&found, &series)?;
    let mut mtus = BTreeMap::new();
    if settings.mtu {
        let measured = tracer.mtu(&judged, &mut mtus);
        tracer.within("mtu", measured)?;
    }
    let mut report = tracer.report(&found, &mut paths, &series, &judged, &mtus);
    if settings.capacity {
        let measured = tracer.capacity(&mut report);
        tracer.within("capacity", measured)?;
    }
    (report.packets_sent, report.bytes_sent) = tracer.prober.sent;
    report.unfinished = tracer.unfinished;
    Ok(report)
}

/// Findings of the first flow's probes.
#[derive(Default)]
struct Found {
    /// Hops of the first flow.
    hops: u8,
    reached: bool,
    /// True if each hop answered, by time to live.
    answers: BTreeMap<u8, (IpAddr, bool)>,
}

/// Answers and probes of each hop, what the missing answers mean, and how the last hop was probed
/// again.
struct Judged {
    hops: Vec<((u64, u64), Silence)>,
    retest: Option<Retest>,
}

/// Observations by hop and mark, with the traffic class that they were sent with.
type Series = BTreeMap<(u8, u8), Vec<Observation>>;

struct Tracer<'a> {
    settings: &'a Settings,
    prober: Prober,
    gap: Nanos,
    timeout: Nanos,
    /// Measurements that the time limit ended.
    unfinished: Vec<&'static str>,
}

impl Tracer<'_> {
    /// Takes note of a measurement that the time limit ended; what it found is kept.
    fn within<T>(
        &mut self,
        what: &'static str,
        ended: Result<T, ProbeError>,
    ) -> Result<Option<T>, ProbeError> {
        match ended {
            Ok(found) => Ok(Some(found)),
            Err(ProbeError::Time(_)) => {
                self.unfinished.push(what);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn probe(&self, flow: u16, ttl: u8, octet: u8) -> Probe {
        let size = self.prober.target().shortest();
        Probe { flow, ttl, class: TrafficClass::from_octet(octet), size }
    }

    fn first_mark(&self) -> u8 {
        self.settings.marks.first().copied().unwrap_or(0)
    }

    /// Returns whether an answer is from the end of a path.
    fn ends(&self, answer: &Answer) -> bool {
        answer.kind.is_final() || answer.from == self.settings.destination
    }

    /// Follows the first flow until its path ends.
    fn discover(&mut self, found: &mut Found) -> Result<(), ProbeError> {
        let mut reached = None;
        let ended = self.follow(&mut found.answers, &mut reached);
        let farthest = found.answers.keys().next_back().copied().unwrap_or(0);
        let hops = reached.unwrap_or(farthest);
        found.answers.retain(|&ttl, _| ttl <= hops);
        (found.hops, found.reached) = (hops, reached.is_some());
        ended
    }

    fn follow(
        &mut self,
        answers: &mut BTreeMap<u8, (IpAddr, bool)>,
        reached: &mut Option<u8>,
    ) -> Result<(), ProbeError> {
        let mut last = 0;
        let mut slowest = 0;
        while reached.is_none() && last < self.settings.max_hops {
            let until = last.saturating_add(WINDOW).min(self.settings.max_hops);
            let mut missing: Vec<u8> = (last + 1..=until).collect();
            for _ in 0..3 {
                let probes: Vec<Probe> =
                    missing.iter().map(|&ttl| self.probe(0, ttl, self.first_mark())).collect();
                let seen = self.prober.probe(&probes, self.gap, self.timeout)?;
                for (&ttl, observation) in missing.iter().zip(&seen) {
                    let Some((_, answer)) = &observation.answer else { continue };
                    slowest = slowest.max(observation.round_trip().unwrap_or(0));
                    answers.insert(ttl, (answer.from, self.ends(answer)));
                    if self.ends(answer) {
                        *reached = Some(reached.unwrap_or(ttl).min(ttl));
                    }
                }
                let end = reached.unwrap_or(until);
                missing.retain(|ttl| *ttl <= end && !answers.contains_key(ttl));
                if missing.is_empty() {
                    break;
                }
            }
            let silent = (last + 1..=until).all(|ttl| !answers.contains_key(&ttl));
            last = until;
            if silent {
                break;
            }
        }
        if slowest > 0 {
            self.timeout = (3 * slowest).clamp(MIN_TIMEOUT, MAX_TIMEOUT);
        }
        Ok(())
    }

    /// Returns the path of the first flow.
    fn paths(&self, found: &Found) -> Multipath {
        let longest = match found.reached {
            true => found.hops.saturating_add(DETOUR).min(self.settings.max_hops),
            false => found.hops,
        };
        let mut paths = Multipath::new(1.0 - self.settings.confidence, longest);
        for (&ttl, &answer) in &found.answers {
            paths.take(HopFlow { ttl, flow: 0 }, Some(answer));
        }
        paths
    }

    /// Finds parallel paths.
    fn multipath(&mut self, paths: &mut Multipath) -> Result<(), ProbeError> {
        loop {
            let hop_flows = paths.next_probes();
            if hop_flows.is_empty() {
                return Ok(());
            }
            let probes: Vec<Probe> = hop_flows
                .iter()
                .map(|hop_flow| self.probe(hop_flow.flow, hop_flow.ttl, self.first_mark()))
                .collect();
            let seen = self.prober.probe(&probes, self.gap, self.timeout)?;
            for (hop_flow, observation) in hop_flows.into_iter().zip(&seen) {
                let answer =
                    observation.answer.map(|(_, answer)| (answer.from, self.ends(&answer)));
                paths.take(hop_flow, answer);
            }
        }
    }

    /// Probes every hop with every mark, time and again. Those that are `answering` have answered
    /// before.
    fn rounds(
        &mut self,
        hops: u8,
        answering: &BTreeSet<u8>,
        series: &mut Series,
    ) -> Result<(), ProbeError> {
        let marks: BTreeSet<u8> = self.settings.marks.iter().copied().collect();
        let round: Vec<(u8, u8)> =
            (1..=hops).flat_map(|ttl| marks.iter().map(move |&mark| (ttl, mark))).collect();
        // Many rounds at once, so that not every round waits for routers that do not answer.
        let mut order = Stream::new(random(), "order");
        let mut left = self.settings.count as usize;
        while left > 0 {
            let rounds = left.min((AT_ONCE / round.len().max(1)).max(1));
            // In random order, so that no balancer that takes turns is in step with the probes.
            let mut keys = round.repeat(rounds);
            for place in (1..keys.len()).rev() {
                keys.swap(place, order.up_to(place as u64) as usize);
            }
            self.pass(&keys, self.gap, series)?;
            left -= rounds;
        }
        // Routers that limit their errors answer few of so many probes.
        for _ in 0..SLOW_PASSES {
            let answers = |key: &(u8, u8)| {
                series.get(key).is_some_and(|all| all.iter().any(|one| one.answer.is_some()))
            };
            let missing: Vec<(u8, u8)> = round
                .iter()
                .filter(|key| !answers(key) && answering.contains(&key.0))
                .copied()
                .collect();
            if missing.is_empty() {
                break;
            }
            let mut slow = Series::new();
            self.pass(&missing, SLOW.max(self.gap), &mut slow)?;
            // They show marks; as they are sent at another rate, they do not count as loss.
            for (key, all) in slow {
                let answered = all.into_iter().filter(|one| one.answer.is_some());
                series.entry(key).or_default().extend(answered);
            }
        }
        Ok(())
    }

    fn pass(
        &mut self,
        keys: &[(u8, u8)],
        gap: Nanos,
        series: &mut Series,
    ) -> Result<(), ProbeError> {
        let probes: Vec<Probe> = keys.iter().map(|&(ttl, mark)| self.probe(0, ttl, mark)).collect();
        let ended = self.prober.probe(&probes, gap, self.timeout);
        let (seen, ended) = match ended {
            Ok(seen) => (seen.into_iter().map(Some).collect(), Ok(())),
            Err(error) => (self.prober.take_judged(self.timeout), Err(error)),
        };
        for (key, observation) in keys.iter().zip(seen) {
            series.entry(*key).or_default().extend(observation);
        }
        ended
    }

    /// Tells loss from limits of ICMP errors. Where the last hop does not answer every probe, it
    /// is probed again, as no hop behind it tells.
    fn judge(&mut self, found: &Found, series: &Series) -> Result<Judged, ProbeError> {
        let counts: Vec<(u64, u64)> =
            (1..=found.hops).map(|ttl| count(&observations(series, ttl))).collect();
        let retest = match counts.last() {
            Some(&(answered, sent)) if answered < sent => {
                let tested = self.retest(found);
                self.within("loss to the last hop", tested)?.flatten()
            }
            _ => None,
        };
        let judged = judge(&counts, retest);
        Ok(Judged { hops: counts.into_iter().zip(judged).collect(), retest })
    }

    /// Probes the last hop in ways that limits of errors do not touch.
    fn retest(&mut self, found: &Found) -> Result<Option<Retest>, ProbeError> {
        let protocol = self.prober.target().protocol;
        let marks = &self.settings.marks;
        let mut echo = None;
        if protocol == ProbeProtocol::Udp && found.reached {
            let number = (self.settings.count as usize * marks.len()).max(ECHO_REQUESTS);
            let probes: Vec<Probe> = (0..number.min(AT_ONCE))
                .map(|number| self.probe(0, ECHO_TTL, marks[number % marks.len()]))
                .collect();
            self.prober.set_protocol(ProbeProtocol::Icmp);
            let seen = self.prober.probe(&probes, self.gap, self.timeout);
            self.prober.set_protocol(protocol);
            let seen = seen?;
            let replied =
                |one: &&Observation| one.answer.is_some_and(|(_, it)| it.kind == Kind::Reply);
            echo = Some(Retest {
                method: Method::Echo,
                answered: seen.iter().filter(replied).count() as u64,
                sent: seen.len() as u64,
            });
        }
        if echo.is_some_and(|one| one.answered == one.sent) {
            return Ok(echo);
        }
        let probes: Vec<Probe> = (0..SPACED_PROBES)
            .map(|number| self.probe(0, found.hops, marks[number % marks.len()]))
            .collect();
        self.prober.wait(monotonic() + SPACED)?;
        let (answered, sent) =
            count(&self.prober.probe(&probes, SPACED.max(self.gap), self.timeout)?);
        Ok(reference(echo, Some(Retest { method: Method::Spaced, answered, sent })))
    }

    /// Measures the path MTU to each hop that answers.
    fn mtu(&mut self, judged: &Judged, mtus: &mut BTreeMap<u8, HopMtu>) -> Result<(), ProbeError> {
        let answering: Vec<MtuHop> = (1..)
            .zip(&judged.hops)
            .filter(|(_, ((answered, _), _))| *answered > 0)
            .map(|(ttl, (_, silence))| MtuHop { ttl, reliable: *silence == Silence::None })
            .collect();
        let least = match self.settings.destination {
            IpAddr::V4(_) => 68,
            IpAddr::V6(_) => 1280,
        };
        let Some(&first) = answering.first() else { return Ok(()) };
        let longest = self.device_mtu(first.ttl, least)?;
        let mut search = MtuSearch::new(&answering, least, longest);
        let mut due = monotonic() + SPACED;
        while let Some((hop, size)) = search.next_probe() {
            let mut probe = self.probe(0, hop.ttl, self.first_mark());
            probe.size = u16::try_from(size).unwrap_or(u16::MAX);
            // Loss does not depend on the time between probes.
            let silence = judged.hops[usize::from(hop.ttl) - 1].1;
            if !hop.reliable && silence != Silence::Loss {
                self.prober.wait(due)?;
                due = monotonic() + SPACED;
            }
            let seen = self.prober.probe(&[probe], self.gap, self.timeout)?;
            search.take(match seen[0].answer {
                Some((_, Answer { kind: Kind::TooBig(mtu), .. })) => Outcome::TooBig(mtu),
                Some(_) => Outcome::Passed,
                None if seen[0].sent == 0 => Outcome::TooBig(0),
                None => Outcome::Silent,
            });
            mtus.extend(search.found().iter().copied());
        }
        Ok(())
    }

    /// Returns the longest packet that this host's device takes.
    fn device_mtu(&mut self, ttl: u8, least: u32) -> Result<u32, ProbeError> {
        let (mut taken, mut refused) = (least, u32::from(u16::MAX) + 1);
        // Usual lengths first.
        let mut guess = 1501;
        while refused > taken + 1 {
            let size = guess;
            let mut probe = self.probe(0, ttl, self.first_mark());
            probe.size = u16::try_from(size).unwrap_or(u16::MAX);
            // No answer is needed.
            if self.prober.probe(&[probe], self.gap, 0)?[0].sent > 0 {
                taken = size;
            } else {
                refused = size;
            }
            guess = match (taken, refused) {
                (_, 1501) if taken < 1500 => 1500,
                _ => taken + (refused - taken) / 2,
            };
        }
        Ok(taken)
    }

    /// Measures the capacity of the link before each hop, and add it to the report.
    fn capacity(&mut self, report: &mut Report) -> Result<(), ProbeError> {
        let answering = report.hops.iter().filter(|hop| hop.answered > 0);
        let at: Vec<(u8, u16)> = answering
            .map(|hop| {
                let mtu = hop.mtu.and_then(|found| found.mtu).unwrap_or(USUAL_MTU);
                (hop.ttl, u16::try_from(mtu).unwrap_or(u16::MAX).min(USUAL_MTU as u16))
            })
            .collect();
        let (hops, mark) = (report.hops.len() as u8, self.first_mark());
        let class = TrafficClass::from_octet(mark);
        let probe = |ttl| Probe { flow: 0, ttl, class, size: 0 };
        let timeout = self.timeout;
        let volume = self.settings.volume;
        let found = trains::measure(&mut self.prober, &probe, hops, &at, timeout, volume)?;
        for (hop, found) in report.hops.iter_mut().zip(found) {
            hop.capacity = Some(found);
        }
        Ok(())
    }

    fn report(
        &self,
        found: &Found,
        paths: &mut Multipath,
        series: &Series,
        judged: &Judged,
        mtus: &BTreeMap<u8, HopMtu>,
    ) -> Report {
        let target = self.prober.target();
        let mut hops: Vec<Hop> = (1..=found.hops)
            .zip(&judged.hops)
            .map(|(ttl, &(counts, silence))| {
                let mut hop = self.hop(ttl, counts, silence, series, paths);
                hop.mtu = mtus.get(&ttl).copied();
                hop
            })
            .collect();
        if let Some((last, retest)) = hops.last_mut().zip(judged.retest) {
            last.retest = Some(retest);
            last.loss = (last.silence != Silence::Unclear).then(|| retest.loss());
        }
        let mut changes = Vec::new();
        for &octet in &self.settings.marks {
            let sent = Mark::from(TrafficClass::from_octet(octet));
            let seen: Vec<Option<Mark>> = hops.iter().map(|hop| received(hop, sent)).collect();
            changes.extend(rewrites(sent, &seen));
        }
        let links = paths.links().into_iter().map(|(ttl, near, far)| LinkBetween {
            ttl,
            from: match near {
                Node::Source => Some(target.source),
                other => address(other),
            },
            to: address(far),
        });
        Report {
            source: target.source,
            destination: target.destination,
            protocol: target.protocol,
            source_port: target.source_port,
            destination_port: target.destination_port,
            flow_label: target.source.is_ipv6().then_some(target.flow_label),
            reached: found.reached,
            links: links.collect(),
            confidence: self.settings.confidence,
            complete: self.settings.multipath && paths.is_sure(),
            rewrites: changes,
            path_mtu: hops.iter().filter_map(|hop| hop.mtu?.mtu).next_back(),
            packets_sent: self.prober.sent.0,
            bytes_sent: self.prober.sent.1,
            unfinished: Vec::new(),
            hops,
        }
    }

    fn hop(
        &self,
        ttl: u8,
        (answered, sent): (u64, u64),
        silence: Silence,
        series: &Series,
        paths: &Multipath,
    ) -> Hop {
        let all = observations(series, ttl);
        let target = self.prober.target();
        let mut addresses: Vec<Address> = Vec::new();
        let own = usual(all.iter().filter_map(|one| Some(one.answer?.1.from)));
        let nodes = paths.nodes(ttl);
        let flows_of = |wanted: IpAddr| {
            nodes.iter().filter(|(node, _)| address(**node) == Some(wanted)).map(|(_, n)| n).sum()
        };
        let nodes: BTreeSet<IpAddr> = nodes
            .keys()
            .filter_map(|&node| address(node))
            .chain(all.iter().filter_map(|one| Some(one.answer?.1.from)))
            .collect();
        for node in own.into_iter().chain(nodes.into_iter().filter(|&node| Some(node) != own)) {
            let flow = if own == Some(node) { Some(0) } else { paths.flow_through(ttl, node) };
            addresses.push(Address {
                address: node,
                flows: flows_of(node),
                source_port: target.port_of(flow.unwrap_or(0)),
            });
        }
        let marks: Vec<MarkSeen> = series
            .iter()
            .filter(|((hop, _), _)| *hop == ttl)
            .map(|((_, octet), all)| mark_seen(*octet, all))
            .collect();
        let per_packet = series.iter().any(|((hop, _), all)| {
            let from = all.iter().filter_map(|one| Some(one.answer?.1.from));
            *hop == ttl && from.collect::<BTreeSet<_>>().len() > 1
        });
        Hop {
            ttl,
            addresses,
            sent,
            answered,
            silence,
            loss: match silence {
                Silence::None | Silence::Loss if sent > 0 => {
                    Some((sent - answered) as f64 / sent as f64)
                }
                _ => None,
            },
            retest: None,
            rtt_s: Spread::of(&times(&all)),
            per_packet,
            translated: all
                .iter()
                .any(|one| one.answer.is_some_and(|(_, it)| it.translated))
                .then_some(true),
            marks,
            mtu: None,
            capacity: None,
        }
    }
}

fn address(node: Node) -> Option<IpAddr> {
    match node {
        Node::Router(address) | Node::End(address) => Some(address),
        Node::Source | Node::Silent => None,
    }
}

fn received(hop: &Hop, sent: Mark) -> Option<Mark> {
    hop.marks.iter().find(|seen| seen.sent == sent)?.received
}

/// Returns all observations of a hop.
fn observations(series: &Series, ttl: u8) -> Vec<Observation> {
    series.iter().filter(|((hop, _), _)| *hop == ttl).flat_map(|(_, all)| all.clone()).collect()
}

/// Answers and probes.
fn count(all: &[Observation]) -> (u64, u64) {
    (all.iter().filter(|one| one.answer.is_some()).count() as u64, all.len() as u64)
}

/// Round-trip times in seconds.
fn times(all: &[Observation]) -> Vec<f64> {
    all.iter().filter_map(Observation::round_trip).map(|nanos| nanos as f64 / 1e9).collect()
}

/// Returns the value that comes most often.
fn usual<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

fn mark_seen(octet: u8, all: &[Observation]) -> MarkSeen {
    let answers = || all.iter().filter_map(|one| Some(one.answer?.1));
    let (answered, probes) = count(all);
    MarkSeen {
        sent: TrafficClass::from_octet(octet).into(),
        received: usual(answers().filter_map(|answer| Some(Mark::from(answer.class?)))),
        address: usual(answers().map(|answer| answer.from)),
        probes,
        answered,
        rtt_s: Spread::of(&times(all)),
    }
}

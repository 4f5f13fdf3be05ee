//! Orders worked out by hand, and by the paper's equations with fractions of integers.

use std::collections::VecDeque;

use perhop_core::Stream;

use super::*;

fn scheduler(weights: &[u64]) -> Wf2q {
    Wf2q::new(&weights.iter().map(|weight| Weight::new(*weight).unwrap()).collect::<Vec<_>>())
}

/// Sends `times` packets of 100 bytes from classes that stay backlogged.
fn send(wfq: &mut Wf2q, times: usize) -> Vec<usize> {
    let one = |_| {
        let class = wfq.select().unwrap();
        wfq.served(class, Bytes::new(100), Some(Bytes::new(100)));
        class
    };
    (0..times).map(one).collect()
}

/// The paper's figures 2 and 3: a session with half of the link and ten with a twentieth each, all
/// with packets of one size. WFQ would send ten packets of the first in a row; in WF²Q the other
/// sessions come in between, each once.
#[test]
fn the_example_of_the_paper() {
    let mut wfq = scheduler(&[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    (0..11).for_each(|class| wfq.activate(class, Bytes::new(100)));
    let order = send(&mut wfq, 20);
    assert_eq!(order, [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10]);
}

/// Weights 1 and 3; a packet of 100 bytes takes 400 and 133⅓ of virtual time. Finish tags 400 and
/// 133, then 267, 400 (of equal tags the first class), start tags of 133 and 267 at 100 and 200:
/// the second class is ahead after one packet, and the first has its turn.
#[test]
fn a_class_ahead_of_its_share_waits() {
    let mut wfq = scheduler(&[1, 3]);
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(send(&mut wfq, 8), [1, 0, 1, 1, 1, 0, 1, 1]);
}

/// A class that was idle while another sent ten packets gets no credit for it: its start tag is the
/// virtual time. With a tag of zero it would send several packets in a row.
#[test]
fn an_idle_class_gets_no_credit() {
    let mut wfq = scheduler(&[1, 1]);
    wfq.activate(0, Bytes::new(100));
    assert_eq!(send(&mut wfq, 10), [0; 10]);
    wfq.activate(1, Bytes::new(100));
    assert_eq!(send(&mut wfq, 6), [1, 0, 1, 0, 1, 0]);
}

/// The second class sends once and leaves, and comes back while it is ahead of its share: its start
/// tag is its last finish tag (100 bytes · 4 = 400), later than the virtual time (100), so that the
/// first class sends until then.
#[test]
fn a_class_that_comes_back_keeps_its_tag() {
    let mut wfq = scheduler(&[3, 1]);
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(wfq.select(), Some(0));
    wfq.served(0, Bytes::new(100), Some(Bytes::new(100)));
    assert_eq!(wfq.select(), Some(1));
    wfq.served(1, Bytes::new(100), None);
    wfq.activate(1, Bytes::new(100));
    assert_eq!(send(&mut wfq, 4), [0, 0, 0, 1]);
}

/// A new busy period forgets all tags.
#[test]
fn a_busy_period_begins_from_zero() {
    let mut wfq = scheduler(&[1, 1]);
    wfq.activate(1, Bytes::new(1000));
    assert_eq!(wfq.select(), Some(1));
    wfq.served(1, Bytes::new(1000), None);
    wfq.restart();
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(send(&mut wfq, 4), [0, 1, 0, 1]);
    // One that began with a packet at once counts that packet.
    wfq = scheduler(&[1, 1]);
    wfq.restart();
    wfq.served_at_once(0, Bytes::new(100));
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(send(&mut wfq, 4), [1, 0, 1, 0]);
    // So it is if the second class has passed one: both begin at 200 after one packet of the first,
    // which is the first of equal tags, and not a bit later.
    wfq = scheduler(&[1, 1]);
    wfq.restart();
    wfq.served_at_once(1, Bytes::new(100));
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(send(&mut wfq, 4), [0, 0, 1, 0]);
    // Whatever the virtual time was before: 100 bytes of service are 200 of virtual time.
    wfq = scheduler(&[1, 1]);
    wfq.activate(1, Bytes::new(100));
    assert_eq!(send(&mut wfq, 3), [1; 3]);
    assert_eq!(wfq.select(), Some(1));
    wfq.served(1, Bytes::new(1000), None);
    assert_eq!(wfq.select(), None);
    wfq.restart();
    wfq.served_at_once(0, Bytes::new(100));
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(send(&mut wfq, 4), [1, 0, 1, 0]);
    // A packet that was in service when the last period ended does not count for the next one: by
    // weights of 1 and 3 it is as after a start, and not as if the fluid server were 1000 bytes on.
    wfq = scheduler(&[1, 3]);
    wfq.activate(0, Bytes::new(1000));
    assert_eq!(wfq.select(), Some(0));
    wfq.served(0, Bytes::new(1000), None);
    wfq.restart();
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(send(&mut wfq, 8), [1, 0, 1, 1, 1, 0, 1, 1]);
}

/// A class whose shaper makes it wait is withdrawn, and is charged nothing. Weights of 1 and 1:
/// class 0 has sent 100 bytes, so that its start tag is 200, and class 1 is next whenever both
/// wait.
#[test]
fn a_class_that_is_withdrawn_keeps_its_tag() {
    let mut wfq = scheduler(&[1, 1]);
    (0..2).for_each(|class| wfq.activate(class, Bytes::new(100)));
    assert_eq!(send(&mut wfq, 1), [0]);
    assert_eq!(wfq.select(), Some(1));
    wfq.withdraw(1);
    // Alone, the first class goes on, ahead of its share.
    assert_eq!(send(&mut wfq, 2), [0, 0]);
    wfq.activate(1, Bytes::new(100));
    assert_eq!(send(&mut wfq, 3), [1, 0, 1]);
}

/// The paper's equations (28) and (29), with one list of classes and no heaps. Virtual times are
/// integers: weights and their sums are powers of two.
struct Reference {
    per_byte: Vec<u64>,
    start: Vec<u64>,
    heads: Vec<Option<u64>>,
    now: u64,
    in_service: u64,
}

impl Reference {
    fn new(weights: &[u64]) -> Self {
        let sum: u64 = weights.iter().sum();
        let per_byte = weights.iter().map(|weight| sum / weight).collect();
        let (start, heads) = (vec![0; weights.len()], vec![None; weights.len()]);
        Self { per_byte, start, heads, now: 0, in_service: 0 }
    }

    fn activate(&mut self, class: usize, head: u64) {
        self.start[class] = self.start[class].max(self.now);
        self.heads[class] = Some(head);
    }

    /// Returns the class with the least finish tag among those that the fluid server has begun.
    fn select(&mut self) -> Option<usize> {
        self.now += std::mem::take(&mut self.in_service);
        let waiting: Vec<usize> =
            (0..self.heads.len()).filter(|class| self.heads[*class].is_some()).collect();
        let least = waiting.iter().map(|class| self.start[*class]).min()?;
        self.now = self.now.max(least);
        let begun = waiting.into_iter().filter(|class| self.start[*class] <= self.now);
        begun.min_by_key(|&class| {
            (self.start[class] + self.heads[class].unwrap() * self.per_byte[class], class)
        })
    }

    fn served(&mut self, class: usize, sent: u64, head: Option<u64>) {
        self.start[class] += sent * self.per_byte[class];
        self.heads[class] = head;
        self.in_service = sent;
    }
}

#[test]
fn the_order_is_that_of_the_equations() {
    let mut numbers = Stream::new(1, "wf2q");
    for weights in [&[1_u64, 1, 2, 4][..], &[2, 2, 4, 8], &[4, 4, 8], &[1, 1], &[1, 1, 1, 1, 4]] {
        for _ in 0..40 {
            let (mut wfq, mut reference) = (scheduler(weights), Reference::new(weights));
            let mut queues = vec![VecDeque::new(); weights.len()];
            let mut upto = |limit| numbers.up_to(limit);
            for _ in 0..400 {
                if upto(9) < 5 {
                    let class = upto(weights.len() as u64 - 1) as usize;
                    let size = 100 * (1 + upto(7));
                    queues[class].push_back(size);
                    if queues[class].len() == 1 {
                        wfq.activate(class, Bytes::new(size));
                        reference.activate(class, size);
                    }
                    continue;
                }
                let class = reference.select();
                assert_eq!(wfq.select(), class);
                let Some(class) = class else {
                    // A link that falls idle.
                    wfq.restart();
                    reference = Reference::new(weights);
                    continue;
                };
                if upto(9) == 0 {
                    wfq.withdraw(class);
                    reference.heads[class] = None;
                    let head = *queues[class].front().unwrap();
                    wfq.activate(class, Bytes::new(head));
                    reference.activate(class, head);
                    continue;
                }
                let size = queues[class].pop_front().unwrap();
                let head = queues[class].front().copied();
                wfq.served(class, Bytes::new(size), head.map(Bytes::new));
                reference.served(class, size, head);
            }
        }
    }
}

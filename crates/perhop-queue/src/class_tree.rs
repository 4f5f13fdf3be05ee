//! A tree of classes: the leaves are queues, and the classes above them count what passes.

use perhop_core::Packet;

use crate::{Backlog, Class, ClassCounters, Classifier, Discipline, Ledger, MatchRules};

/// A class for a tree.
#[derive(Debug)]
pub(crate) struct Branch<B, S> {
    /// Filter of the packets of the parent that belong to the class.
    pub matches: MatchRules,
    /// State that a scheduler keeps for the class.
    pub state: S,
    pub kind: BranchKind<B, S>,
}

/// Kind of a class for a tree.
#[derive(Debug)]
pub(crate) enum BranchKind<B, S> {
    Leaf(Class<B>),
    /// Classes in match order, and the name of their parent in results.
    Inner(Box<str>, Vec<Branch<B, S>>),
}

/// A class of a tree, with the state `S` of a scheduler.
#[derive(Debug)]
pub(crate) struct Node<B, S> {
    pub parent: Option<usize>,
    pub state: S,
    kind: Kind<B>,
}

#[derive(Debug)]
enum Kind<B> {
    Leaf(Class<B>),
    Inner {
        /// Name in results.
        name: Box<str>,
        classifier: Box<Classifier>,
        children: Vec<usize>,
        /// Index of the first node behind those below this one.
        end: usize,
        counters: ClassCounters,
    },
}

/// All classes, depth first, starting with the root.
#[derive(Debug)]
pub(crate) struct ClassTree<B, S> {
    nodes: Vec<Node<B, S>>,
    /// Backlog of all leaves.
    backlog: Backlog,
}

impl<B, S> ClassTree<B, S> {
    /// Creates a tree without packets. The last class of every parent takes the packets that no
    /// other matches.
    ///
    /// # Panics
    /// If a parent has no class.
    pub fn new(root: S, classes: Vec<Branch<B, S>>) -> Self {
        let mut tree = Self { nodes: Vec::new(), backlog: Backlog::default() };
        let kind = BranchKind::Inner(Box::default(), classes);
        tree.add(Branch { matches: MatchRules::default(), state: root, kind }, None);
        tree
    }

    /// Adds a class and those below it; returns its index.
    fn add(&mut self, branch: Branch<B, S>, parent: Option<usize>) -> usize {
        let (index, state) = (self.nodes.len(), branch.state);
        match branch.kind {
            BranchKind::Leaf(class) => {
                self.nodes.push(Node { parent, state, kind: Kind::Leaf(class) });
            }
            BranchKind::Inner(name, branches) => {
                let matches = branches.iter().map(|branch| branch.matches.clone());
                let classifier = Box::new(Classifier::new(matches));
                let counters = ClassCounters::default();
                let (children, end) = (Vec::new(), 0);
                let kind = Kind::Inner { name, classifier, children, end, counters };
                self.nodes.push(Node { parent, state, kind });
                let below = branches.into_iter().map(|branch| self.add(branch, Some(index)));
                let below = below.collect::<Vec<_>>();
                let last = self.nodes.len();
                if let Kind::Inner { children, end, .. } = &mut self.nodes[index].kind {
                    (*children, *end) = (below, last);
                }
            }
        }
        index
    }

    /// Returns the number of classes, with the root.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the class of an index.
    pub fn node(&self, index: usize) -> &Node<B, S> {
        &self.nodes[index]
    }

    /// Returns the state of a class.
    pub fn state(&mut self, index: usize) -> &mut S {
        &mut self.nodes[index].state
    }

    /// Returns the classes directly below a class; none below a leaf.
    pub fn children(&self, index: usize) -> &[usize] {
        match &self.nodes[index].kind {
            Kind::Leaf(_) => &[],
            Kind::Inner { children, .. } => children,
        }
    }

    /// Returns the backlog of all leaves.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Calls `visit` for every class below the root, depth first.
    pub fn visit(&self, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            match &node.kind {
                Kind::Leaf(class) => class.visit(visit),
                Kind::Inner { name, end, counters, .. } => {
                    let below = self.nodes[index..*end].iter().filter_map(Node::leaf);
                    let mut backlog = Backlog::default();
                    for class in below {
                        let more = class.backlog();
                        backlog.packets += more.packets;
                        backlog.bytes += more.bytes;
                    }
                    visit(name, counters, backlog);
                }
            }
        }
    }

    /// Returns the leaf of this name.
    pub fn class_mut(&mut self, name: &str) -> Option<&mut Class<B>> {
        self.nodes.iter_mut().find_map(|node| match &mut node.kind {
            Kind::Leaf(class) => class.class_mut(name),
            Kind::Inner { .. } => None,
        })
    }

    /// Returns the queue of a leaf.
    pub fn leaf(&self, index: usize) -> &Class<B> {
        self.nodes[index].leaf().expect("only leaves have packets")
    }

    /// Returns the leaf that a packet belongs to.
    pub fn classify(&self, packet: &Packet<B>) -> usize {
        let mut index = 0;
        while let Kind::Inner { classifier, children, .. } = &self.nodes[index].kind {
            index = children[classifier.classify(&packet.header)];
        }
        index
    }

    /// Calls `act` on the queue of a leaf, and counts drops and marks in the classes above it.
    pub fn act<T>(
        &mut self,
        leaf: usize,
        ledger: &mut Ledger<B>,
        act: impl FnOnce(&mut Class<B>, &mut Ledger<B>) -> T,
    ) -> T {
        let (drops, marks) = (ledger.drops.len(), ledger.marks);
        let class = self.leaf_mut(leaf);
        let before = class.backlog();
        let result = act(class, ledger);
        let after = class.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        if ledger.drops.len() > drops || ledger.marks > marks {
            self.above(leaf, |counters| counters.count_since(ledger, drops, marks));
        }
        result
    }

    /// Returns the queue of a leaf. Its packets are changed by [`act`](Self::act) only.
    pub fn leaf_mut(&mut self, index: usize) -> &mut Class<B> {
        match &mut self.nodes[index].kind {
            Kind::Leaf(class) => class,
            Kind::Inner { .. } => unreachable!("only leaves have packets"),
        }
    }

    /// Calls `each` with the counters of every class between a leaf and the root.
    pub fn above(&mut self, leaf: usize, mut each: impl FnMut(&mut ClassCounters)) {
        let mut next = self.nodes[leaf].parent;
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            if let Kind::Inner { counters, .. } = &mut node.kind {
                each(counters);
            }
            next = node.parent;
        }
    }

    /// Returns all waiting packets, leaf by leaf.
    pub fn drain(self, packets: &mut Vec<Packet<B>>) {
        for node in self.nodes {
            if let Kind::Leaf(class) = node.kind {
                class.drain(packets);
            }
        }
    }
}

impl<B, S> Node<B, S> {
    /// Returns the queue of a leaf.
    pub fn leaf(&self) -> Option<&Class<B>> {
        match &self.kind {
            Kind::Leaf(class) => Some(class),
            Kind::Inner { .. } => None,
        }
    }
}

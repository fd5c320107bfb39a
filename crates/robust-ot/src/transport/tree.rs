//! The spanning tree of the network simplex: its structure, flows and potentials.
//!
//! Nodes 0..m are sources, m..m+n targets, m+n the root. An arc always runs from a source to a target, from a
//! source to the root, or from the root to a target. The arc between a node and its parent therefore runs upward if
//! the node is a source and downward if it is a target. Its flow is stored with the node.

/// Marks a missing parent, child or sibling.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) first_child: u32,
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) depth: u32,
    /// Flow on the arc to the parent, in units of the quantized mass.
    pub(super) flow: i128,
}

/// A rooted spanning tree with flows and potentials.
///
/// The tree is kept strongly feasible: every arc without flow points toward the root. With exact integer flows
/// this rules out cycling through degenerate pivots (Cunningham 1976).
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) sources: usize,
    pub(super) nodes: Vec<Node>,
    /// π, with reduced cost C_ij + π_i − π_j zero on tree arcs.
    potential: Vec<f64>,
    /// The potential of a node while it hangs from the root: the cost of the arc that meets a demand through the root, or
    /// minus the cost of the arc that takes a supply there.
    pub(super) anchor: Vec<f64>,
    stack: Vec<u32>,
}

/// Where a pivot cuts the tree.
struct Leaving {
    /// Lower end of the arc that leaves.
    node: usize,
    /// The flow that moves around the cycle.
    flow: i128,
    /// Whether it lies on the path up from the source end of the entering arc.
    on_source_side: bool,
}

impl Tree {
    /// The tree in which every node hangs from the root: supplies flow up, demands down.
    pub(super) fn star(supply: &[i128], demand: &[i128]) -> Self {
        let count = supply.len() + demand.len();
        let root = Node { parent: NONE, first_child: NONE, next: NONE, previous: NONE, depth: 0, flow: 0 };
        let mut tree = Self {
            sources: supply.len(),
            nodes: vec![root; count + 1],
            potential: vec![0.0; count + 1],
            anchor: vec![0.0; count],
            stack: Vec::new(),
        };
        for (node, &flow) in supply.iter().chain(demand).enumerate() {
            tree.nodes[node].flow = flow;
            tree.nodes[node].depth = 1;
            tree.attach(node, count);
        }
        tree
    }

    pub(super) fn root(&self) -> usize {
        self.nodes.len() - 1
    }

    /// π of the sources and of the targets.
    pub(super) fn potentials(&self) -> (&[f64], &[f64]) {
        self.potential[..self.root()].split_at(self.sources)
    }

    /// max |π|.
    pub(super) fn largest_potential(&self) -> f64 {
        self.potential.iter().fold(0.0, |top, p| p.abs().max(top))
    }

    /// (source, target, flow) of every tree arc between points.
    pub(super) fn arcs(&self) -> impl Iterator<Item = (usize, usize, i128)> + '_ {
        (0..self.root())
            .filter_map(|v| self.arc(v).map(|(source, target)| (source, target, self.nodes[v].flow)))
    }

    /// (node, flow) of every arc to the root that still carries flow: sources first, then targets.
    pub(super) fn unmatched(&self) -> impl Iterator<Item = (usize, i128)> + '_ {
        let at_root = |&v: &usize| self.nodes[v].parent as usize == self.root() && self.nodes[v].flow > 0;
        (0..self.root()).filter(at_root).map(|v| (v, self.nodes[v].flow))
    }

    /// Makes every arc from the root to a target cost `penalty`.
    pub(super) fn penalize(&mut self, penalty: f64) {
        self.anchor[self.sources..].fill(penalty);
    }

    /// Prepares the anchors of an optimal tree for costs up to `largest`: a common part is removed, and anchors of another scale
    /// are dropped, whose size would cost digits.
    pub(super) fn ease_anchors(&mut self, largest: f64) {
        let mut hanging = Vec::new();
        self.push_children(self.root(), &mut hanging);
        let common = hanging.first().map_or(0.0, |&v| self.anchor[v as usize]);
        let size = hanging.iter().fold(0.0_f64, |top, &v| top.max((self.anchor[v as usize] - common).abs()));
        let keep = size <= largest;
        for v in hanging {
            let anchor = &mut self.anchor[v as usize];
            *anchor = if keep { *anchor - common } else { 0.0 };
        }
    }

    /// Sets all potentials from the costs of the tree arcs and the anchors.
    pub(super) fn refresh_potentials(&mut self, cost: impl Fn(usize, usize) -> f64) {
        let root = self.root();
        self.potential[root] = 0.0;
        let mut stack = std::mem::take(&mut self.stack);
        self.push_children(root, &mut stack);
        while let Some(v) = stack.pop() {
            let v = v as usize;
            let parent = self.nodes[v].parent as usize;
            self.potential[v] = if parent == root {
                self.anchor[v]
            } else if v < self.sources {
                self.potential[parent] - cost(v, parent - self.sources)
            } else {
                self.potential[parent] + cost(parent, v - self.sources)
            };
            self.push_children(v, &mut stack);
        }
        self.stack = stack;
    }

    /// Adds the arc source → target to the tree, sends as much flow as fits around the cycle it closes, and removes the
    /// arc that empties.
    pub(super) fn pivot(&mut self, source: usize, target: usize, reduced_cost: f64) {
        let target = self.sources + target;
        let join = self.join(source, target);
        let leaving = self.leaving(source, target, join);
        self.push_flow(source, target, join, leaving.flow);
        // The part below the leaving arc is hung from the other end of the entering arc.
        let (inside, outside, shift) = if leaving.on_source_side {
            (source, target, -reduced_cost)
        } else {
            (target, source, reduced_cost)
        };
        self.rehang(inside, outside, leaving.node, leaving.flow);
        self.shift_subtree(inside, shift);
    }

    /// The flow that fits around the cycle that an arc would close, and the lower nodes of the tree arcs on it, each with
    /// whether its arc gains that flow.
    pub(super) fn cycle(&self, source: usize, target: usize) -> (i128, Vec<(usize, bool)>) {
        let target = self.sources + target;
        let join = self.join(source, target);
        let mut arcs = Vec::new();
        for (start, loses) in [(source, true), (target, false)] {
            let mut v = start;
            while v != join {
                arcs.push((v, (v < self.sources) != loses));
                v = self.nodes[v].parent as usize;
            }
        }
        (self.leaving(source, target, join).flow, arcs)
    }

    /// (source, target) of the tree arc above a node; None if it ends at the root.
    pub(super) fn arc(&self, node: usize) -> Option<(usize, usize)> {
        let parent = self.nodes[node].parent as usize;
        if parent == self.root() {
            return None;
        }
        let (source, target) = if node < self.sources { (node, parent) } else { (parent, node) };
        Some((source, target - self.sources))
    }

    /// The lowest common ancestor.
    fn join(&self, mut u: usize, mut v: usize) -> usize {
        while u != v {
            if self.nodes[u].depth >= self.nodes[v].depth {
                u = self.nodes[u].parent as usize;
            } else {
                v = self.nodes[v].parent as usize;
            }
        }
        u
    }

    /// The arc that empties first. Ties go to the last one met when following the flow from the join down to the
    /// source, over the entering arc and up again: this keeps the tree strongly feasible.
    fn leaving(&self, source: usize, target: usize, join: usize) -> Leaving {
        let mut leaving = Leaving { node: source, flow: i128::MAX, on_source_side: true };
        let mut v = source;
        while v != join {
            if v < self.sources && self.nodes[v].flow < leaving.flow {
                leaving = Leaving { node: v, flow: self.nodes[v].flow, on_source_side: true };
            }
            v = self.nodes[v].parent as usize;
        }
        v = target;
        while v != join {
            if v >= self.sources && self.nodes[v].flow <= leaving.flow {
                leaving = Leaving { node: v, flow: self.nodes[v].flow, on_source_side: false };
            }
            v = self.nodes[v].parent as usize;
        }
        leaving
    }

    /// Moves flow around the cycle: arcs against the entering one lose it, arcs along it gain it.
    fn push_flow(&mut self, source: usize, target: usize, join: usize, flow: i128) {
        if flow == 0 {
            return;
        }
        for (start, loses) in [(source, true), (target, false)] {
            let mut v = start;
            while v != join {
                let change = if (v < self.sources) == loses { -flow } else { flow };
                self.nodes[v].flow += change;
                v = self.nodes[v].parent as usize;
            }
        }
    }

    /// Reverses the path from `inside` up to `top` and hangs it from `outside`.
    fn rehang(&mut self, inside: usize, outside: usize, top: usize, flow: i128) {
        let (mut node, mut parent, mut flow) = (inside, outside, flow);
        loop {
            let (old_parent, old_flow) = (self.nodes[node].parent as usize, self.nodes[node].flow);
            self.detach(node);
            self.attach(node, parent);
            self.nodes[node].flow = flow;
            if node == top {
                return;
            }
            (node, parent, flow) = (old_parent, node, old_flow);
        }
    }

    /// Shifts every potential in the subtree at `top`, and recomputes its depths.
    fn shift_subtree(&mut self, top: usize, shift: f64) {
        let mut stack = std::mem::take(&mut self.stack);
        stack.push(top as u32);
        while let Some(v) = stack.pop() {
            let v = v as usize;
            self.potential[v] += shift;
            self.nodes[v].depth = self.nodes[self.nodes[v].parent as usize].depth + 1;
            self.push_children(v, &mut stack);
        }
        self.stack = stack;
    }

    fn push_children(&self, node: usize, stack: &mut Vec<u32>) {
        let mut child = self.nodes[node].first_child;
        while child != NONE {
            stack.push(child);
            child = self.nodes[child as usize].next;
        }
    }

    pub(super) fn attach(&mut self, node: usize, parent: usize) {
        let first = self.nodes[parent].first_child;
        if first != NONE {
            self.nodes[first as usize].previous = node as u32;
        }
        self.nodes[parent].first_child = node as u32;
        let entry = &mut self.nodes[node];
        (entry.parent, entry.next, entry.previous) = (parent as u32, first, NONE);
    }

    fn detach(&mut self, node: usize) {
        let Node { parent, next, previous, .. } = self.nodes[node];
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        if previous == NONE {
            self.nodes[parent as usize].first_child = next;
        } else {
            self.nodes[previous as usize].next = next;
        }
    }
}

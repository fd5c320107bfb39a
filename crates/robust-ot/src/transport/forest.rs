//! A start of the network simplex from flows along a forest of arcs, instead of the star.

use super::least_arcs::Arc;
use super::tree::{NONE, Tree};

/// Flows along arcs without a cycle, as a greedy match leaves them.
#[derive(Debug)]
pub(super) struct Forest {
    /// (source, target, flow > 0).
    arcs: Vec<(u32, u32, i128)>,
    /// What the flows leave of supplies and demands: at most one node in each of the trees keeps a part.
    left: Vec<i128>,
}

impl Forest {
    /// Sends as much as possible along one arc after the other. Every arc with flow empties one of its ends, so that the
    /// arcs have no cycle.
    pub(super) fn greedy(supply: &[i128], demand: &[i128], arcs: impl Iterator<Item = Arc>) -> Self {
        let mut left: Vec<i128> = supply.iter().chain(demand).copied().collect();
        let mut taken = Vec::new();
        for Arc { row, column, .. } in arcs {
            let (i, j) = (row as usize, supply.len() + column as usize);
            let flow = left[i].min(left[j]);
            if flow > 0 {
                left[i] -= flow;
                left[j] -= flow;
                taken.push((row, column, flow));
            }
        }
        Self { arcs: taken, left }
    }
}

impl Tree {
    /// The tree that hangs each part of a forest from the root by the node with supply or demand left or, without one, by a
    /// source, so that no empty arc points downward. A node there has the given potential; one with demand left also pays
    /// `penalty`.
    pub(super) fn from_forest(
        (supply, demand): (&[i128], &[i128]),
        Forest { arcs, left }: &Forest,
        (f, g): (&[f64], &[f64]),
        penalty: f64,
    ) -> Self {
        let sources = supply.len();
        let mut tree = Self::star(supply, demand);
        let root = tree.root();
        tree.nodes.iter_mut().for_each(|node| node.first_child = NONE);
        tree.anchor.clear();
        tree.anchor.extend(f.iter().map(|f| -f).chain(g.iter().map(|g| g + penalty)));
        let (starts, ends) = adjacency(root, arcs.iter().map(|&(i, j, flow)| (i, sources as u32 + j, flow)));
        let mut seen = vec![false; root];
        let mut stack = Vec::new();
        for top in (0..root).filter(|&v| left[v] > 0).chain(0..sources) {
            if std::mem::replace(&mut seen[top], true) {
                continue;
            }
            tree.nodes[top].flow = left[top];
            tree.attach(top, root);
            stack.push(top);
            while let Some(v) = stack.pop() {
                for &(to, flow) in &ends[starts[v]..starts[v + 1]] {
                    let to = to as usize;
                    if !std::mem::replace(&mut seen[to], true) {
                        tree.nodes[to].flow = flow;
                        tree.nodes[to].depth = tree.nodes[v].depth + 1;
                        tree.attach(to, v);
                        stack.push(to);
                    }
                }
            }
        }
        tree
    }

    /// Whether no demand is met through the root.
    pub(super) fn is_matched(&self) -> bool {
        self.unmatched().next().is_none()
    }
}

/// The (neighbor, flow) pairs of node v at `starts[v]..starts[v + 1]`.
fn adjacency(
    nodes: usize,
    arcs: impl Iterator<Item = (u32, u32, i128)> + Clone,
) -> (Vec<usize>, Vec<(u32, i128)>) {
    let mut starts = vec![0; nodes + 1];
    for (i, j, _) in arcs.clone() {
        starts[i as usize + 1] += 1;
        starts[j as usize + 1] += 1;
    }
    for v in 0..nodes {
        starts[v + 1] += starts[v];
    }
    let mut next = starts.clone();
    let mut ends = vec![(0, 0); starts[nodes]];
    for (i, j, flow) in arcs {
        for (from, to) in [(i, j), (j, i)] {
            ends[next[from as usize]] = (to, flow);
            next[from as usize] += 1;
        }
    }
    (starts, ends)
}

//! Everything measured in one run.

use crate::figure::Figure;
use crate::measure::median;
use crate::peer::Peer;

/// All repeats of one peer in one figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// The peer.
    pub peer: Peer,
    /// The results of each repeat: names and values, in the order of the columns.
    pub repeats: Vec<Vec<(String, f64)>>,
    /// Why it has not been measured, if it has not.
    pub failure: Option<String>,
}

impl Row {
    fn values(&self, metric: &str) -> Vec<f64> {
        let all = self.repeats.iter().flatten();
        all.filter(|(name, _)| name == metric)
            .map(|(_, value)| *value)
            .collect()
    }

    /// Returns the median of a metric, if it was measured.
    pub fn median(&self, metric: &str) -> Option<f64> {
        median(self.values(metric))
    }

    /// Returns the least and the greatest of a metric.
    pub fn range(&self, metric: &str) -> Option<(f64, f64)> {
        let values = self.values(metric);
        let least = values.iter().copied().reduce(f64::min)?;
        Some((least, values.into_iter().reduce(f64::max)?))
    }
}

/// One figure with everybody who took part.
#[derive(Clone, Debug)]
pub struct Table {
    /// The figure.
    pub figure: Figure,
    /// The peers, in the order of [`Figure::peers`].
    pub rows: Vec<Row>,
}

impl Table {
    /// Makes a table in which nothing is measured yet.
    pub fn new(figure: Figure, peers: Vec<Peer>) -> Self {
        let row = |peer| Row {
            peer,
            repeats: Vec::new(),
            failure: None,
        };
        Self {
            figure,
            rows: peers.into_iter().map(row).collect(),
        }
    }

    /// Returns the names of the metrics. Peers are compared by the first one.
    pub fn metrics(&self) -> Vec<&str> {
        let measured = self.rows.iter().find_map(|row| row.repeats.first());
        measured
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Returns the best of those that are not tickwheel.
    pub fn best_peer(&self, metric: &str) -> Option<(Peer, f64)> {
        let rivals = self.rows.iter().filter(|row| row.peer.is_rival());
        let values = rivals.filter_map(|row| Some((row.peer, row.median(metric)?)));
        let cost = |value: f64| {
            if more_is_better(metric) {
                -value
            } else {
                value
            }
        };
        values.min_by(|one, other| cost(one.1).total_cmp(&cost(other.1)))
    }
}

/// Returns whether a metric counts work done in a time, and not its cost.
pub fn more_is_better(metric: &str) -> bool {
    metric == "M pairs/s"
}

/// Finds the table of a figure by its name.
pub fn table<'a>(results: &'a [Table], id: &str) -> Option<&'a Table> {
    results.iter().find(|table| table.figure.id == id)
}

/// Returns the median of a metric.
pub fn find_median(results: &[Table], id: &str, peer: Peer, metric: &str) -> Option<f64> {
    table(results, id)?
        .rows
        .iter()
        .find(|row| row.peer == peer)?
        .median(metric)
}

/// Makes a table of churn-1k from values of its first metric.
#[cfg(test)]
pub(crate) fn measured(metric: &str, values: &[(Peer, f64)]) -> Table {
    let figure = Figure::all(crate::figure::Scale::Full)[0];
    let mut table = Table::new(figure, figure.peers());
    for (peer, value) in values {
        let row = table.rows.iter_mut().find(|row| row.peer == *peer).unwrap();
        row.repeats.push(vec![(metric.to_owned(), *value)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_is_never_tickwheel() {
        let values = [9.0, 7.0, 8.0].map(|value| {
            let rivals = [(Peer::Nexus, 4.0 * value), (Peer::DelayQueue, 10.0 * value)];
            [(Peer::LocalTimer, value), rivals[0], rivals[1]]
        });
        let [costs, rates] =
            ["ns/pair", "M pairs/s"].map(|metric| measured(metric, values.as_flattened()));
        assert_eq!(costs.best_peer("ns/pair"), Some((Peer::Nexus, 32.0)));
        assert_eq!(rates.best_peer("M pairs/s"), Some((Peer::DelayQueue, 80.0)));
        assert_eq!(costs.rows[0].range("ns/pair"), Some((7.0, 9.0)));
        let results = [costs];
        let median = |peer| find_median(&results, "churn-1k", peer, "ns/pair");
        assert_eq!(
            (median(Peer::LocalTimer), median(Peer::Heap)),
            (Some(8.0), None)
        );
    }
}

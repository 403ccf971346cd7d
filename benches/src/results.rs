//! Everything measured in one run.

use crate::figure::Figure;
use crate::measure::median;
use crate::peer::Peer;

/// All repeats of one metric.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    values: Vec<f64>,
}

/// All repeats of one peer in one figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who.
    pub peer: Peer,
    series: Vec<Series>,
    /// Why it has not been measured, if it has not.
    pub failure: Option<String>,
}

impl Row {
    fn new(peer: Peer) -> Self {
        Self { peer, series: Vec::new(), failure: None }
    }

    fn values(&self, metric: &str) -> &[f64] {
        let series = self.series.iter().find(|series| series.name == metric);
        series.map_or(&[], |series| &series.values)
    }

    /// The median of a metric, if it was measured.
    #[must_use]
    pub fn median(&self, metric: &str) -> Option<f64> {
        let values = self.values(metric);
        (!values.is_empty()).then(|| median(values))
    }

    /// The least and the greatest of a metric.
    #[must_use]
    pub fn range(&self, metric: &str) -> Option<(f64, f64)> {
        let values = self.values(metric);
        let least = values.iter().copied().reduce(f64::min)?;
        Some((least, values.iter().copied().reduce(f64::max)?))
    }

    /// The names of what was measured, in order.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|series| series.name.as_str())
    }
}

/// One figure with everybody who took part.
#[derive(Clone, Debug)]
pub struct Table {
    /// What.
    pub figure: Figure,
    /// Who, in the order of [`Figure::peers`].
    pub rows: Vec<Row>,
}

impl Table {
    /// The best of those that are not tickwheel.
    #[must_use]
    pub fn best_peer(&self, metric: &str, more_is_better: bool) -> Option<(Peer, f64)> {
        let rivals = self.rows.iter().filter(|row| row.peer.is_rival());
        let values = rivals.filter_map(|row| Some((row.peer, row.median(metric)?)));
        values.reduce(|best, next| {
            let is_better = if more_is_better { next.1 > best.1 } else { next.1 < best.1 };
            if is_better { next } else { best }
        })
    }
}

/// All tables.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// In the order of measuring.
    pub tables: Vec<Table>,
}

impl Results {
    /// Adds one repeat.
    pub fn add(&mut self, figure: Figure, peer: Peer, outcome: Result<Vec<(String, f64)>, String>) {
        let row = self.row_mut(figure, peer);
        match outcome {
            Err(failure) => row.failure = Some(failure),
            Ok(metrics) => {
                for (name, value) in metrics {
                    match row.series.iter_mut().find(|series| series.name == name) {
                        Some(series) => series.values.push(value),
                        None => row.series.push(Series { name, values: vec![value] }),
                    }
                }
            }
        }
    }

    fn row_mut(&mut self, figure: Figure, peer: Peer) -> &mut Row {
        let found = self.tables.iter().position(|table| table.figure == figure);
        let at = found.unwrap_or_else(|| {
            let rows = figure.peers().into_iter().map(Row::new).collect();
            self.tables.push(Table { figure, rows });
            self.tables.len() - 1
        });
        let rows = &mut self.tables[at].rows;
        let found = rows.iter().position(|row| row.peer == peer);
        let row = found.unwrap_or_else(|| {
            rows.push(Row::new(peer));
            rows.len() - 1
        });
        &mut rows[row]
    }

    /// The table of a figure, by its name.
    #[must_use]
    pub fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.figure.id() == id)
    }

    /// The median of a metric.
    #[must_use]
    pub fn median(&self, id: &str, peer: Peer, metric: &str) -> Option<f64> {
        self.table(id)?.rows.iter().find(|row| row.peer == peer)?.median(metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_is_never_tickwheel() {
        let mut results = Results::default();
        let figure = Figure::Churn(1000);
        let mut add =
            |peer, value| results.add(figure, peer, Ok(vec![("ns/pair".to_owned(), value)]));
        for value in [9.0, 7.0, 8.0] {
            add(Peer::LocalTimer, value);
            add(Peer::Nexus, 4.0 * value);
            add(Peer::DelayQueue, 10.0 * value);
        }
        results.add(figure, Peer::LockedTree, Err("killed".to_owned()));
        let table = results.table("churn-1k").unwrap();
        assert_eq!(table.best_peer("ns/pair", false), Some((Peer::Nexus, 32.0)));
        assert_eq!(table.best_peer("ns/pair", true), Some((Peer::DelayQueue, 80.0)));
        assert_eq!(results.median("churn-1k", Peer::LocalTimer, "ns/pair"), Some(8.0));
        assert_eq!(results.median("churn-1k", Peer::LockedTree, "ns/pair"), None);
        assert_eq!(table.rows[0].range("ns/pair"), Some((7.0, 9.0)));
    }
}

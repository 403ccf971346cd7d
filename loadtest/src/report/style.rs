//! The report's style sheet: readable on light and dark, nothing loaded from elsewhere.

/// Inlined into the page.
pub(crate) const STYLE: &str = "
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b1f24; --soft: #57606a; --rule: #d8dee4;
  --grid: #e8ebef; --a: #2563c9; --b: #b4530a; --c: #1a7f4b;
  --on: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1318; --card: #171c23; --ink: #e6e9ed; --soft: #9aa4af; --rule: #2c343d;
    --grid: #232a32; --a: #79a8ff; --b: #f0a35e; --c: #5cc98f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 24px 20px 48px; max-width: 1080px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', sans-serif;
}
h1 { font-size: 24px; margin: 0 0 2px; }
h2.phase { font-size: 20px; margin: 28px 0 0; text-transform: capitalize; }
h2.phase .soft { text-transform: none; font-weight: 400; }
h3 { font-size: 16px; margin: 0 0 4px; }
h3::first-letter { text-transform: uppercase; }
p { margin: 0 0 8px; }
.soft { color: var(--soft); font-size: 13px; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: 16px 18px; margin-top: 16px; min-width: 0; overflow-wrap: anywhere; }
.note { border-left: 4px solid var(--b); }
.note ul { margin: 4px 0 0; padding-left: 18px; }
.verdict { color: var(--on); border: 0; }
.verdict.ok { background: #1a7f4b; } .verdict.breach { background: #b3232a; }
.verdict.nothing-was-run { background: #6b6b6b; }
.verdict strong { font-size: 20px; margin-right: 10px; }
.verdict ul { margin: 8px 0 0; padding-left: 18px; font: 13px/1.5 ui-monospace, monospace; }
.tiles { display: grid; gap: 12px; margin-top: 16px;
  grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); }
.tiles .card { margin: 0; padding: 12px 16px; }
.tiles b { display: block; font-size: 20px; font-weight: 600; white-space: nowrap; }
.pair { display: grid; gap: 0 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(400px, 100%), 1fr)); align-items: start; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 8px; border-bottom: 1px solid var(--rule); }
th { color: var(--soft); font-weight: 500; font-size: 13px; }
td:first-child, th:first-child, .facts td { text-align: left; }
.facts td:first-child { color: var(--soft); white-space: nowrap; padding-right: 20px; }
tr:last-child td { border-bottom: 0; }
.scroll { overflow-x: auto; }
.scroll th, .scroll td { white-space: nowrap; overflow-wrap: normal; }
figure { margin: 6px 0 0; }
svg { width: 100%; height: auto; display: block; }
svg rect[fill='none'], svg polyline { stroke-linejoin: round; }
@media (max-width: 480px) {
  body { padding: 16px 10px 32px; }
  .card { padding: 12px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tiles .card { padding: 10px 12px; }
  .tiles b { font-size: 18px; }
  .facts td:first-child { white-space: normal; padding-right: 8px; }
}
";

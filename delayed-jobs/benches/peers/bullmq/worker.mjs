// BullMQ as `cargo bench` of delayed-jobs drives it: see delayed-jobs/benches/figures.rs.
import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
import { Queue, Worker } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.argv[2]), maxRetriesPerRequest: null };
const { version } = JSON.parse(readFileSync(new URL('./node_modules/bullmq/package.json', import.meta.url)));
const queue = new Queue('figures', { connection });
const settings = { removeOnComplete: true, removeOnFail: true };
const worker = new Worker('figures', async job => {
  const us = Math.floor((performance.timeOrigin + performance.now()) * 1000);
  process.stdout.write(`${job.data} ${us}\n`);
}, { connection, concurrency: 100 });
await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
process.stdout.write(`ready BullMQ ${version}\n`);
createInterface({ input: process.stdin }).on('line', async line => {
  const [number, due] = line.split(' ').map(Number);
  await queue.add('job', number, { ...settings, delay: Math.max(0, due - Date.now()) });
  process.stdout.write('+\n');
});

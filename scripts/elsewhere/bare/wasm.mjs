// Runs the module of examples/wasm.rs: node wasm.mjs MODULE
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
for (const [front, run] of [["LocalTimer", "wheel"], ["one delay", "queue"]]) {
  const fired = instance.exports[run](5000);
  if (fired < 3000) throw new Error(`${front}: only ${fired} of 5000 fired`);
  console.log(`${front}: ${fired} of 5000 fired, the others were cancelled`);
}

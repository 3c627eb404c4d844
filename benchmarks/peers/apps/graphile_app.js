// Graphile Worker, https://worker.graphile.org/docs/performance: `node graphile_app.js worker JOBS_AT_ONCE`, or the
// producer that producer.py describes.
const fs = require("node:fs");
const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const { makeWorkerUtils, run } = require("graphile-worker");

const connectionString = process.env.BENCH_URL;
const now = () => Number(process.hrtime.bigint()) / 1e9;

const taskList = {
  noop: async () => {},
  mark: async ({ sent, path }) => {
    const waited = now() - sent;
    fs.appendFileSync(path, `${waited.toFixed(7)}\n`);
  },
};

// The settings of that page, "With batching".
function work(jobsAtOnce) {
  const worker = {
    connectionString,
    concurrentJobs: jobsAtOnce,
    maxPoolSize: jobsAtOnce + 1,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  };
  return run({ preset: { worker }, taskList });
}

async function produce() {
  const utils = await makeWorkerUtils({ connectionString });
  await utils.migrate();
  const payload = { args: ["+4915112345678"], code: "1234" };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [what, text] = line.split(" ");
    const count = Number(text);
    const began = now();
    if (what === "many") {
      for (let start = 0; start < count; start += 5000) {
        const size = Math.min(5000, count - start);
        await utils.addJobs(Array.from({ length: size }, () => ({ identifier: "noop", payload })));
      }
    } else {
      for (let number = 0; number < count; number += 1) {
        if (what === "mark") {
          await sleep(20 + Math.random() * 20);
          await utils.addJob("mark", { sent: now(), path: process.env.BENCH_MARKS });
        } else {
          await utils.addJob("noop", payload);
        }
      }
    }
    console.log(now() - began);
  }
  await utils.release();
}

if (process.argv[2] === "worker") work(Number(process.argv[3]));
else produce();

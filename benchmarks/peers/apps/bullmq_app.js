// BullMQ, https://docs.bullmq.io: `node bullmq_app.js worker SLOTS`, or the producer that producer.py describes.
const fs = require("node:fs");
const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const { Queue, Worker } = require("bullmq");

const url = new URL(process.env.BENCH_URL);
const connection = url.protocol === "unix:" ? { path: url.pathname } : { host: url.hostname, port: Number(url.port) };
const now = () => Number(process.hrtime.bigint()) / 1e9;

function work(slots) {
  const worker = new Worker("bench", async (job) => {
    if (job.name === "mark") {
      const waited = now() - job.data.sent;
      fs.appendFileSync(job.data.path, `${waited.toFixed(7)}\n`);
    } else if (job.name === "rest") {
      await sleep(10);
    }
    return null;
  }, { connection, concurrency: slots });
  process.on("SIGTERM", () => worker.close().then(() => process.exit(0)));
}

async function produce() {
  const queue = new Queue("bench", { connection });
  const data = { args: ["+4915112345678"], code: "1234" };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [what, text] = line.split(" ");
    const count = Number(text);
    const began = now();
    if (what === "many") {
      for (let start = 0; start < count; start += 5000) {
        const size = Math.min(5000, count - start);
        await queue.addBulk(Array.from({ length: size }, () => ({ name: "noop", data })));
      }
    } else {
      for (let number = 0; number < count; number += 1) {
        if (what === "mark") {
          await sleep(20 + Math.random() * 20);
          await queue.add("mark", { sent: now(), path: process.env.BENCH_MARKS });
        } else {
          await queue.add(what === "rest" ? "rest" : "noop", what === "rest" ? {} : data);
        }
      }
    }
    console.log(now() - began);
  }
  await queue.close();
}

if (process.argv[2] === "worker") work(Number(process.argv[3]));
else produce();

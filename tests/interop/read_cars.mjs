// Reads repositories with two implementations that others have written:
//     node read_cars.mjs MODULES < lines of {"car", "did", "key"}
// For each a line: what `@atproto/repo` and `@atcute/repo` find in it, or what they complain about.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/index.js`));
const reference = require("@atproto/repo");
const other = await import(pathToFileURL(`${process.argv[2]}/node_modules/@atcute/repo/dist/index.js`));

async function byReference({ car, did, key }) {
  const { creates, commit } = await reference.verifyRepoCar(readFileSync(car), did, key);
  const records = creates.map((one) => [`${one.collection}/${one.rkey}`, one.cid.toString()]);
  return { rev: commit.rev, head: commit.cid.toString(), records: Object.fromEntries(records) };
}

async function byOther({ car }) {
  const entries = [...other.fromUint8Array(new Uint8Array(readFileSync(car)))];
  const records = entries.map((one) => [`${one.collection}/${one.rkey}`, one.cid.$link]);
  entries.forEach((one) => one.record);
  return { records: Object.fromEntries(records) };
}

async function said(read, job) {
  try {
    return await read(job);
  } catch (error) {
    return { error: String(error) };
  }
}

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const job = JSON.parse(line);
  const found = { reference: await said(byReference, job), other: await said(byOther, job) };
  process.stdout.write(JSON.stringify(found) + "\n");
}

// What servers and tools written for node do with memory: closures and maps that the JIT
// compiles, buffers outside the heap, compression, hashes, files, timers, worker threads,
// child processes, WebAssembly. Prints the same in every run.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { execFileSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const zlib = require('node:zlib');

function work(rounds, seed) {
    const all = new Map();
    let sum = seed;
    for (let round = 0; round < rounds; round++) {
        const objects = Array.from({ length: 200 }, (_, n) => ({ name: `object ${n}`, values: new Array(n % 17).fill(round) }));
        for (const object of objects) {
            sum = (sum * 31 + object.values.length + object.name.length) % 1000003;
        }
        all.set(round % 64, objects.sort((a, b) => a.values.length - b.values.length));
        const text = JSON.stringify([...all.keys()]);
        sum += JSON.parse(text).length;
        const buffer = Buffer.alloc(1000 + (round % 50) * 100, round & 255);
        sum += buffer.indexOf(seed & 255);
    }
    return sum;
}

// (module (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add))
const WASM = Buffer.from('0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b', 'hex');

async function main() {
    console.log('main', work(3000, 1));
    const workers = [1, 2, 3].map(seed => new Promise((resolve, reject) => {
        const worker = new Worker(__filename, { workerData: seed });
        worker.on('message', resolve);
        worker.on('error', reject);
    }));
    console.log('workers', await Promise.all(workers));
    const big = Buffer.from(Array.from({ length: 300000 }, (_, n) => (n * n) >> 5 & 255));
    const packed = await new Promise((resolve, reject) => zlib.deflate(big, (error, out) => error ? reject(error) : resolve(out)));
    console.log('zlib', zlib.inflateSync(packed).equals(big));
    console.log('sha256', crypto.createHash('sha256').update(big).digest('hex'));
    console.log('pbkdf2', crypto.pbkdf2Sync('word', 'salt', 1000, 16, 'sha512').toString('hex'));
    fs.writeFileSync('file', big);
    console.log('file', (await fs.promises.readFile('file')).length);
    console.log('child', execFileSync(process.execPath, ['-p', '6 * 7']).toString().trim());
    const { instance } = await WebAssembly.instantiate(WASM);
    let sum = 0;
    for (let n = 0; n < 100000; n++) {
        sum = instance.exports.add(sum, n);
    }
    console.log('wasm', sum);
    try {
        (function deep(n) { return n + deep(n + 1); })(0);
    } catch (error) {
        console.log(error.constructor.name);
    }
    await new Promise(resolve => setTimeout(resolve, 5));
    console.log('pattern', 'aaaaaaaaaaaaaaaaaaaab'.repeat(1000).match(/(a+b)+/g).length);
    process.exitCode = 3;
}

if (isMainThread) {
    main();
} else {
    parentPort.postMessage(work(1000, workerData));
}

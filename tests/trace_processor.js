// Runs Perfetto's trace processor as its web page does, in what Node has of a worker. Messages of its
// RPC come from stdin, all at once, and the answers go to stdout.
//
//     node trace_processor.js FOLDER    (which has engine_bundle.js and the .wasm files)
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const asked = new Uint8Array(fs.readFileSync(0));
const content = (name) => fs.readFileSync(path.join(folder, path.basename(String(name))));

// What a worker has and Node has not. Some versions load their code at once, others later.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = globalThis;
globalThis.location = { href: "http://localhost/engine_bundle.js" };
globalThis.XMLHttpRequest = class {
  open(method, name) {
    this.name = name;
  }
  send() {
    this.response = content(this.name);
  }
};
globalThis.fetch = async (name) =>
  new Response(content(name), { headers: { "Content-Type": "application/wasm" } });
console.log = console.warn = console.error; // stdout is for answers

// Without `process` it does not notice that this is Node, for which it was not built.
const code = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
vm.runInThisContext(`(function (process) {${code}\n})`, "engine_bundle.js")();

const port = {
  onmessage: null,
  postMessage(answer) {
    for (let done = 0; done < answer.length; ) done += fs.writeSync(1, answer, done);
  },
};

function begin() {
  if (!self.onmessage) return setTimeout(begin, 10);
  self.onmessage({ data: port });
  setTimeout(send, 10);
}

function send() {
  if (!port.onmessage) return setTimeout(send, 10);
  port.onmessage({ data: asked });
  process.exit(0);
}

begin();

// Drives the YAML language server over stdio with the schemas: `node drive.mjs SERVER SANDBOXC`. Prints `N passed, M failed`.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [program, sandboxc] = process.argv.slice(2);
const schema = (name) => pathToFileURL(resolve("schema", `${name}.schema.json`)).href;
const settings = {
  yaml: {
    validate: true, hover: true, completion: true, schemaStore: { enable: false },
    schemas: { [schema("repo")]: ["**/sandbox.yaml"], [schema("server")]: ["**/server.yaml"] },
    customTags: ["!env scalar", "!var scalar", "!file scalar"],
  },
};

// A client that answers what the server asks, and waits for what it sends.
class Client {
  constructor(settings) {
    this.settings = settings;
    this.next = 1;
    this.waiting = new Map();
    this.diagnostics = new Map();
    this.rest = Buffer.alloc(0);
    this.child = spawn(process.execPath, [program, "--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
    this.child.stdout.on("data", (data) => this.read(data));
  }

  read(data) {
    this.rest = Buffer.concat([this.rest, data]);
    for (;;) {
      const end = this.rest.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number(/Content-Length: (\d+)/i.exec(this.rest.subarray(0, end).toString())[1]);
      if (this.rest.length < end + 4 + length) return;
      const message = JSON.parse(this.rest.subarray(end + 4, end + 4 + length).toString());
      this.rest = this.rest.subarray(end + 4 + length);
      this.take(message);
    }
  }

  take(message) {
    if (message.method === "workspace/configuration") {
      const result = message.params.items.map(({ section }) => this.settings[section] ?? null);
      this.send({ id: message.id, result });
    } else if (message.method === "textDocument/publishDiagnostics") {
      const { uri, diagnostics } = message.params;
      this.diagnostics.get(uri)?.(diagnostics);
    } else if (message.method && message.id !== undefined) {
      this.send({ id: message.id, result: null });
    } else if (this.waiting.has(message.id)) {
      this.waiting.get(message.id)(message);
      this.waiting.delete(message.id);
    }
  }

  send(message) {
    const text = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.child.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  request(method, params) {
    const id = this.next++;
    return within(method, new Promise((done, failed) => {
      this.waiting.set(id, ({ result, error }) => (error ? failed(new Error(error.message)) : done(result)));
      this.send({ id, method, params });
    }));
  }

  async start(root) {
    await this.request("initialize", {
      processId: process.pid, rootUri: pathToFileURL(root).href,
      capabilities: {
        workspace: { configuration: true, didChangeConfiguration: { dynamicRegistration: true } },
        textDocument: { hover: { contentFormat: ["markdown"] }, completion: { completionItem: {} }, publishDiagnostics: {} },
      },
    });
    this.send({ method: "initialized", params: {} });
    this.send({ method: "workspace/didChangeConfiguration", params: { settings: this.settings } });
    // The server reads its settings before it handles the next document.
    await new Promise((done) => setTimeout(done, 500));
  }

  // Opens a file and returns its findings.
  open(path, text) {
    const uri = pathToFileURL(path).href;
    const found = within(path, new Promise((done) => this.diagnostics.set(uri, done)));
    this.send({ method: "textDocument/didOpen", params: { textDocument: { uri, languageId: "yaml", version: 1, text } } });
    return found;
  }

  hover(path, line, character) {
    return this.request("textDocument/hover", { textDocument: { uri: pathToFileURL(path).href }, position: { line, character } });
  }

  async completion(path, line, character) {
    const params = { textDocument: { uri: pathToFileURL(path).href }, position: { line, character } };
    const { items } = await this.request("textDocument/completion", params);
    // The tags of server files are offered everywhere.
    return items.map((item) => item.label).filter((label) => !label.startsWith("!"));
  }
}

function within(what, promise) {
  let timer;
  const late = new Promise((_, failed) => { timer = setTimeout(() => failed(new Error(`${what}: no answer`)), 20000); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function* configs(dir) {
  for (const name of readdirSync(dir).sort()) {
    const path = join(dir, name);
    if (statSync(path).isDirectory()) yield* configs(path);
    else if (name === "sandbox.yaml" || name === "server.yaml") yield path;
  }
}

let passed = 0, failed = 0;
async function test(name, body) {
  try {
    await body();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.message}`);
  }
}

function equal(found, wanted) {
  const [a, b] = [found, wanted].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`found ${a}, wanted ${b}`);
}

const root = mkdtempSync(join(tmpdir(), "sandboxc-editor-"));
const client = new Client(settings);
await client.start(root);

let examples = 0;
for (const path of configs(resolve("examples"))) {
  examples += 1;
  await test(`${path} has no findings`, async () => {
    const found = await client.open(path, readFileSync(path, "utf8"));
    equal(found.map(({ range, message }) => `${range.start.line + 1}: ${message}`), []);
  });
}
await test("there are examples", async () => { if (examples < 5) throw new Error(`${examples} examples`); });

// Each line with a mistake says which: the findings must be on these lines and no others.
const broken = `version: 2
imag: x
identity: nobody
env: {A: 1}
network:
  allow:
    - {hots: a.example.com}
    - {host: a.example.com, ports: [0]}
    - good.example.com
resource_limits:
  pids_limit: many
`;
await test("findings stand on the right lines", async () => {
  const found = await client.open(join(root, "broken/sandbox.yaml"), broken);
  const lines = [...new Set(found.map(({ range }) => range.start.line + 1))].sort((a, b) => a - b);
  equal(lines, [1, 2, 3, 4, 7, 8, 11]);
});
const server = "version: 1\nnetwork:\n  allwo: []\nrepos:\n  a:\n    home: public\n";
await test("findings in a server file stand on the right lines", async () => {
  const found = await client.open(join(root, "broken/server.yaml"), server);
  equal([...new Set(found.map(({ range }) => range.start.line + 1))].sort(), [3, 6]);
});

const half = join(root, "half/sandbox.yaml");
const text = "version: 1\nidentity: root\nnetwork:\n  \nenv:\n  A: b\nresource_limits:\n  timeout: 30m\n";
await test("hover shows what a key means, its default and an example", async () => {
  await client.open(half, text);
  for (const [line, at, words] of [
    [1, 2, ["The user that the command runs as:", "Default: \`host-user\`."]],
    [7, 4, ["Time until the command is stopped", "Default: no limit.", "3600"]],
    [4, 1, ["Environment variables."]],
  ]) {
    const { contents } = (await client.hover(half, line, at)) ?? { contents: { value: "nothing" } };
    for (const word of words) {
      if (!contents.value.includes(word)) throw new Error(`line ${line + 1} lacks ${word}: ${contents.value}`);
    }
  }
});
await test("completion offers the keys and values of a place", async () => {
  equal(await client.completion(half, 3, 2), ["allow"]);
  const start = join(root, "start/sandbox.yaml");
  await client.open(start, "version: 1\n\nidentity: \n");
  const keys = await client.completion(start, 1, 0);
  for (const key of ["image", "network", "resource_limits", "user_namespaces"]) {
    if (!keys.includes(key)) throw new Error(`${key} is missing: ${keys}`);
  }
  if (keys.includes("version")) throw new Error("a key that is there is offered again");
  const values = await client.completion(start, 2, 10);
  for (const value of ["host-user", "root"]) {
    if (!values.includes(value)) throw new Error(`${value} is missing: ${values}`);
  }
});
client.child.kill();

// What \`init\` writes needs no settings: its first line names the schema beside it.
const repo = join(root, "repo");
mkdirSync(repo);
execFileSync(sandboxc, ["init", "--preset", "claude"], { cwd: repo, stdio: "ignore", env: { PATH: process.env.PATH, HOME: root } });
const plain = new Client({ yaml: { validate: true, hover: true, completion: true, schemaStore: { enable: false } } });
await plain.start(repo);
await test("what init writes names its schema", async () => {
  const path = join(repo, ".sandboxc/sandbox.yaml");
  const written = readFileSync(path, "utf8");
  equal(await plain.open(path, written), []);
  const wrong = join(repo, ".sandboxc/wrong.yaml");
  writeFileSync(wrong, `${written}imag: x\n`);
  const found = await plain.open(wrong, readFileSync(wrong, "utf8"));
  equal(found.map(({ range }) => range.start.line), [written.split("\n").length - 1]);
});
plain.child.kill();

rmSync(root, { recursive: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);

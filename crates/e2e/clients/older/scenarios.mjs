// The JavaScript SDKs before 1.0 against a running server: scenarios.mjs js-0.3|js-0.2 ORIGIN JSONRPC|HTTP+JSON
//
// The first argument is the folder of the version's adapter. Every scenario is reported by name; the exit code is 1 when
// one failed. A name as fourth argument runs only that one.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import { Fold, textOf } from './fold.mjs';

// tasks/get is a method of 0.1 as well, and without a version in the request the answer has the members of both: these are
// the ones that are not this generation's.
const own = (value) => JSON.parse(JSON.stringify(value, (key, v) => (key === 'type' || key === 'index' ? undefined : v)));

const [folder, origin, binding, only] = process.argv.slice(2);
const sdk = await import(`../${folder}/sdk.mjs`);
assert.ok(sdk.BINDINGS.includes(binding), `${sdk.NAME} has no ${binding}`);

const loses = sdk.LOSES?.[binding] ?? [];
Fold.blind = loses.includes('append');

const CHUNKS = [
  { status: 'working', text: 'counting' },
  { artifact: { name: 'count', parts: [{ text: 'abc ' }] }, chunks: 12, every_ms: 25 },
  { complete: 'counted' },
];
const NOBODY = '019aa000-0000-7000-8000-00000000abcd';

// The SDKs report what they refuse to read to the console before they throw; a test expects that.
console.error = () => {};

const asked = [];
const realFetch = globalThis.fetch;
globalThis.fetch = (url, ...rest) => {
  asked.push(new URL(url).pathname);
  return realFetch(url, ...rest);
};

const clientOf = (agent) => sdk.connect(`${origin}/a2a/${agent}`, binding);
const said = (parts, members = {}) => ({ kind: 'message', messageId: randomUUID(), role: 'user', parts, ...members });
const text = (words, members) => said([{ kind: 'text', text: words }], members);
const script = (steps, members) => said([{ kind: 'data', data: { script: steps } }], members);

async function collect(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

/** SDKs differ in how they show an absent member: undefined, empty or null. */
const plain = (value) => JSON.parse(JSON.stringify(value, (_, v) => (v === null ? undefined : v)));

/** A refusal with this code. */
async function refused(code, call) {
  const outcome = typeof call.next === 'function' ? collect(call) : call;
  const error = await outcome.then(
    (value) => assert.fail(`accepted with ${JSON.stringify(value)}`),
    (refusal) => refusal,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.equal(sdk.codeOf(error), code, error.stack);
}

const scenarios = {
  async discover() {
    asked.length = 0;
    const card = await sdk.cardOf(origin);
    const echo = await sdk.cardOf(`${origin}/a2a/echo`);
    assert.deepEqual(asked, [sdk.CARD_PATH, `/a2a/echo${sdk.CARD_PATH}`], 'the path of this version');
    assert.deepEqual(card, echo, 'the origin has the card of the default agent');
    assert.equal(card.capabilities.streaming, true);
    assert.equal(card.url, `${origin}/a2a/echo`);
    assert.equal(card.preferredTransport, 'JSONRPC');
    assert.deepEqual(card.additionalInterfaces.map((i) => i.transport), ['JSONRPC', 'HTTP+JSON']);
  },

  async sendAndGet() {
    const client = await clientOf('echo');
    const parts = [
      { kind: 'text', text: 'hello' },
      { kind: 'file', file: { uri: 'https://example.com/a.png', mimeType: 'image/png', name: 'a.png' } },
      { kind: 'file', file: { bytes: Buffer.from([0, 1, 254, 255]).toString('base64'), mimeType: 'image/gif' } },
      { kind: 'data', data: { a: [1, 'x'], b: {} } },
    ];
    const message = said(parts);
    const task = await client.send(message);
    assert.equal(task.kind, 'task');
    assert.equal(task.status.state, 'completed');
    sameParts(task.artifacts[0].parts, parts);
    const got = await client.get(task.id);
    assert.deepEqual(own(got.artifacts), own(task.artifacts));
    assert.deepEqual(own(got.status), own(task.status));
    assert.equal(got.contextId, task.contextId);
    assert.equal(got.history[0].messageId, message.messageId);
    sameParts(own(got.history[0].parts), parts);
    assert.equal((await client.get(task.id, 1)).history.length, 1);
  },

  async returnAtOnce() {
    const client = await clientOf('scripted');
    const task = await client.send(script([{ sleep_ms: 300 }, { complete: 'done' }]), { blocking: false });
    assert.ok(['submitted', 'working'].includes(task.status.state), task.status.state);
    const last = (await collect(client.resubscribe(task.id))).at(-1);
    assert.equal(last.final, true);
    assert.equal(last.status.state, 'completed');
  },

  async stream() {
    const client = await clientOf('scripted');
    const events = await collect(client.stream(script(CHUNKS)));
    const fold = Fold.of(events);
    assert.equal(fold.state, 'completed');
    assert.deepEqual(Object.values(fold.artifacts), ['abc '.repeat(12)]);
    const chunks = events.filter((event) => event.kind === 'artifact-update');
    if (!Fold.blind) assert.deepEqual(chunks.map((c) => c.append ?? false), [false, ...Array(11).fill(true)]);
    assert.deepEqual(chunks.map((c) => c.lastChunk ?? false), [...Array(11).fill(false), true]);
    const finals = events.filter((event) => event.kind === 'status-update').map((event) => event.final);
    assert.deepEqual(finals, [...Array(finals.length - 1).fill(false), true]);
    assert.equal(events.at(-1).kind, 'status-update', 'the last event ends the stream');
    assert.deepEqual(fold, new Fold(await client.get(fold.id)));
  },

  async cancel() {
    const client = await clientOf('scripted');
    const hanging = [{ status: 'working', text: 'waiting' }, { hang: true }];
    const task = await client.send(script(hanging), { blocking: false });
    assert.ok(['submitted', 'working'].includes(task.status.state), task.status.state);
    const canceled = await client.cancel(task.id);
    assert.equal(canceled.id, task.id);
    assert.equal(canceled.status.state, 'canceled');
    await refused(-32002, client.cancel(task.id));
  },

  async resubscribe() {
    const client = await clientOf('scripted');
    const steps = [
      { input: 'ready?' },
      { artifact: { name: 'a', parts: [{ text: 'go ' }] }, chunks: 3 },
      { complete: 'done' },
    ];
    const task = await client.send(script(steps));
    assert.equal(task.status.state, 'input-required');
    const events = client.resubscribe(task.id);
    const fold = new Fold((await events.next()).value);
    assert.equal(fold.state, 'input-required');
    await client.send(text('yes', { taskId: task.id }));
    let last;
    for await (const event of events) {
      fold.take(event);
      last = event;
    }
    assert.equal(last.final, true);
    assert.deepEqual(Object.values(fold.artifacts), ['go go go ']);
    assert.deepEqual(fold, new Fold(await client.get(task.id)));
  },

  /** A dropped stream cancels nothing, and a second one has it all. */
  async leaveAndComeBack() {
    const client = await clientOf('scripted');
    let task;
    for await (const event of client.stream(script(CHUNKS))) {
      task = event.id;
      break;
    }
    const fold = Fold.of(await collect(client.resubscribe(task)));
    assert.equal(fold.state, 'completed');
    assert.deepEqual(Object.values(fold.artifacts), ['abc '.repeat(12)]);
  },

  async answerAQuestion() {
    const client = await clientOf('scripted');
    let task = await client.send(script([{ input: 'name?' }, { input: 'age?' }, { complete: 'thanks' }]));
    assert.equal(task.status.state, 'input-required');
    assert.equal(textOf(task.status.message.parts), 'name?');
    task = await client.send(text('Ada', { taskId: task.id }));
    assert.equal(task.status.state, 'input-required');
    const done = await client.send(text('36', { taskId: task.id, contextId: task.contextId }));
    assert.equal(done.id, task.id);
    assert.equal(done.status.state, 'completed');
    assert.equal(textOf(done.status.message.parts), 'thanks');
  },

  async answerInAStream() {
    const client = await clientOf('scripted');
    const steps = [{ input: 'name?' }, { echo: true }, { complete: 'thanks' }];
    const events = await collect(client.stream(script(steps)));
    assert.equal(events.at(-1).status.state, 'input-required');
    assert.equal(events.at(-1).final, true);
    const fold = Fold.of(await collect(client.stream(text('Ada', { taskId: events[0].id }))));
    assert.equal(fold.id, events[0].id);
    assert.equal(fold.state, 'completed');
    assert.deepEqual(Object.values(fold.artifacts), ['Ada']);
  },

  async directMessage() {
    const client = await clientOf('scripted');
    const answer = await client.send(script([{ message: 'just so' }]));
    assert.equal(answer.kind, 'message');
    assert.equal(answer.role, 'agent');
    assert.equal(textOf(answer.parts), 'just so');
    assert.ok(answer.contextId && !answer.taskId, JSON.stringify(answer));
    const events = await collect(client.stream(script([{ message: 'just so' }])));
    assert.deepEqual(events.map((event) => event.kind), ['message']);
  },

  async failures() {
    const client = await clientOf('scripted');
    const failed = await client.send(script([{ fail: 'no luck' }]));
    assert.equal(failed.status.state, 'failed');
    assert.equal(textOf(failed.status.message.parts), 'no luck');
    assert.equal((await client.send(script([{ reject: 'not for me' }]))).status.state, 'rejected');
    assert.equal((await client.send(script([{ auth: 'sign in' }]))).status.state, 'auth-required');
  },

  async errors() {
    const client = await clientOf('scripted');
    await refused(-32001, client.get(NOBODY));
    await refused(-32001, client.cancel(NOBODY));
    await refused(-32001, client.resubscribe(NOBODY));
    await refused(-32001, client.send(text('hi', { taskId: NOBODY })));
    await refused(-32001, client.stream(text('hi', { taskId: NOBODY })));
    const done = await client.send(text('done'));
    await refused(-32004, client.send(text('more', { taskId: done.id })));
    await refused(-32004, client.resubscribe(done.id));
    await refused(-32002, client.cancel(done.id));
    await refused(-32602, client.send(text('hi', { taskId: done.id, contextId: 'another' })));
  },
};

/** Parts as they were sent, but for members that the SDK fills in itself. */
function sameParts(found, sent) {
  const bare = plain(found).map(({ metadata, ...part }) => {
    assert.deepEqual(metadata ?? {}, {});
    if (part.file) part.file = Object.fromEntries(Object.entries(part.file).filter(([, value]) => value !== ''));
    return part;
  });
  const expected = structuredClone(sent);
  if (loses.includes('file.name')) expected.forEach((part) => delete part.file?.name);
  assert.deepEqual(bare, expected);
}

function within(milliseconds, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${milliseconds} ms`)), milliseconds);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

let failed = 0;
for (const [name, scenario] of Object.entries(scenarios)) {
  if (only && name !== only) continue;
  try {
    await within(15_000, scenario());
    console.log(`ok ${sdk.NAME} ${binding} ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${sdk.NAME} ${binding} ${name}\n${error?.stack ?? error}`);
  }
}
process.exit(failed > 0 ? 1 : 0);

// The JavaScript SDK (@a2a-js/sdk 1.x) against a running server: scenarios.mjs ORIGIN JSONRPC|HTTP+JSON
//
// Every scenario is reported by name; the exit code is 1 when one failed. A name as third argument runs only that one.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import { ListTasksRequest, Message, Role, SendMessageRequest, TaskState } from '@a2a-js/sdk';
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { isJsonRpcError, isRestError } from '@a2a-js/sdk/errors';

import { Fold, textOf } from './fold.mjs';
import { Ids } from './wire.mjs';

const [origin, binding, only] = process.argv.slice(2);

const CHUNKS = [
  { status: 'working', text: 'counting' },
  { artifact: { name: 'count', parts: [{ text: 'abc ' }] }, chunks: 12, every_ms: 25 },
  { complete: 'counted' },
];
const NOBODY = '019aa000-0000-7000-8000-00000000abcd';

/** The SDK's client of one agent, made from its card, and the ids of the frames it reads. */
async function clientOf(agent) {
  const ids = new Ids();
  const options = { fetchImpl: ids.fetch };
  const transport = binding === 'JSONRPC' ? new JsonRpcTransportFactory(options) : new RestTransportFactory(options);
  const factory = new ClientFactory({
    transports: [transport],
    cardResolver: new DefaultAgentCardResolver(options),
  });
  const client = await factory.createFromUrl(`${origin}/a2a/${agent}/`, '.well-known/agent-card.json');
  assert.equal(client.transport.protocolName, binding);
  return { client, ids };
}

function request(parts, { taskId, contextId, ...configuration } = {}) {
  const message = { messageId: randomUUID(), role: 'ROLE_USER', parts, taskId, contextId };
  return SendMessageRequest.fromJSON({ message, configuration });
}

const text = (words, more) => request([{ text: words }], more);
const script = (steps, more) => request([{ data: { script: steps } }], more);
const stateOf = (task) => TaskState[task.status.state];
const resumeAt = (id) => ({ serviceParameters: { 'Last-Event-ID': id } });

async function collect(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

/** A refusal with this reason, in the error class of the binding. */
async function refused(reason, call) {
  const outcome = typeof call.next === 'function' ? collect(call) : call;
  const error = await outcome.then(
    (value) => assert.fail(`accepted with ${JSON.stringify(value)}`),
    (refusal) => refusal,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.ok(binding === 'JSONRPC' ? isJsonRpcError(error) : isRestError(error), `an error of the SDK: ${error.stack}`);
  assert.equal(error.reason, reason, error.message);
}

const scenarios = {
  async discover() {
    const resolver = new DefaultAgentCardResolver();
    const card = await resolver.resolve(origin);
    const echo = await resolver.resolve(`${origin}/a2a/echo/`, '.well-known/agent-card.json');
    assert.deepEqual(card, echo, 'the origin has the card of the default agent');
    assert.equal(card.capabilities.streaming, true);
    const bindings = card.supportedInterfaces.map((i) => `${i.protocolBinding} ${i.protocolVersion}`);
    assert.ok(bindings.includes('JSONRPC 1.0') && bindings.includes('HTTP+JSON 1.0'), bindings.join());
  },

  async sendAndGet() {
    const { client } = await clientOf('echo');
    const sent = request([
      { text: 'hello' },
      { url: 'https://example.com/a.png', mediaType: 'image/png', filename: 'a.png' },
      { raw: Buffer.from([0, 1, 254, 255]).toString('base64'), mediaType: 'application/octet-stream' },
      { data: { a: [1, null, 'x'], b: {} } },
    ]);
    const task = await client.sendMessage(sent);
    assert.equal(stateOf(task), 'TASK_STATE_COMPLETED');
    assert.deepEqual(task.artifacts[0].parts, sent.message.parts);
    const got = await client.getTask({ id: task.id });
    assert.deepEqual(got.artifacts, task.artifacts);
    assert.deepEqual(got.status, task.status);
    assert.equal(got.contextId, task.contextId);
    assert.equal(got.history[0].messageId, sent.message.messageId);
    const bare = await client.getTask({ id: task.id, historyLength: 0 });
    assert.deepEqual(bare.history, []);
  },

  async stream() {
    const { client, ids } = await clientOf('scripted');
    const events = await collect(client.sendMessageStream(script(CHUNKS)));
    assert.equal(events[0].payload.$case, 'task');
    assert.equal(ids.seen.length, events.length, 'every frame has an id');
    const fold = new Fold();
    for (const event of events) fold.take(event);
    assert.equal(TaskState[fold.state], 'TASK_STATE_COMPLETED');
    assert.deepEqual(Object.values(fold.artifacts), ['abc '.repeat(12)]);
    const chunks = events.filter((e) => e.payload.$case === 'artifactUpdate').map((e) => e.payload.value);
    assert.deepEqual(chunks.map((c) => c.append), [false, ...Array(11).fill(true)]);
    assert.deepEqual(chunks.map((c) => c.lastChunk), [...Array(11).fill(false), true]);
    assert.deepEqual(fold, Fold.ofTask(await client.getTask({ id: fold.id })));
  },

  async list() {
    const { client } = await clientOf('echo');
    const contextId = randomUUID();
    const made = [];
    for (let n = 0; n < 5; n += 1) made.push(await client.sendMessage(text(`${n}`, { contextId })));
    const found = [];
    let pageToken = '';
    do {
      const page = await client.listTasks(ListTasksRequest.fromJSON({ contextId, pageSize: 2, pageToken }));
      assert.equal(page.totalSize, 5);
      found.push(...page.tasks.map((task) => task.id));
      pageToken = page.nextPageToken;
    } while (pageToken);
    assert.deepEqual(found, made.map((task) => task.id).reverse(), 'newest first, each once');
    const working = await client.listTasks(ListTasksRequest.fromJSON({ contextId, status: 'TASK_STATE_WORKING' }));
    assert.equal(working.totalSize, 0);
    const whole = await client.listTasks(ListTasksRequest.fromJSON({ contextId, includeArtifacts: true }));
    assert.deepEqual(whole.tasks.map((task) => textOf(task.artifacts[0].parts)), ['4', '3', '2', '1', '0']);
  },

  async cancel() {
    const { client } = await clientOf('scripted');
    const hanging = [{ status: 'working', text: 'waiting' }, { hang: true }];
    const task = await client.sendMessage(script(hanging, { returnImmediately: true }));
    assert.ok(['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING'].includes(stateOf(task)), stateOf(task));
    const canceled = await client.cancelTask({ id: task.id });
    assert.equal(stateOf(canceled), 'TASK_STATE_CANCELED');
    await refused('TASK_NOT_CANCELABLE', client.cancelTask({ id: task.id }));
  },

  async subscribe() {
    const { client } = await clientOf('scripted');
    const steps = [
      { input: 'ready?' },
      { artifact: { name: 'a', parts: [{ text: 'go ' }] }, chunks: 3 },
      { complete: 'done' },
    ];
    const task = await client.sendMessage(script(steps));
    assert.equal(stateOf(task), 'TASK_STATE_INPUT_REQUIRED');
    const events = client.resubscribeTask({ id: task.id });
    const fold = new Fold();
    fold.take((await events.next()).value);
    assert.equal(TaskState[fold.state], 'TASK_STATE_INPUT_REQUIRED');
    await client.sendMessage(text('yes', { taskId: task.id }));
    for await (const event of events) fold.take(event);
    assert.deepEqual(Object.values(fold.artifacts), ['go go go ']);
    assert.deepEqual(fold, Fold.ofTask(await client.getTask({ id: task.id })));
  },

  async resumeBySubscribing() {
    await leaveAndComeBack((client, sent, id, options) => client.resubscribeTask({ id }, options));
  },

  async resumeBySendingAgain() {
    await leaveAndComeBack((client, sent, id, options) => client.sendMessageStream(sent, options));
  },

  async answerAQuestion() {
    const { client } = await clientOf('scripted');
    const steps = [{ input: 'name?' }, { input: 'age?' }, { complete: 'thanks' }];
    let task = await client.sendMessage(script(steps));
    assert.equal(stateOf(task), 'TASK_STATE_INPUT_REQUIRED');
    assert.equal(textOf(task.status.message.parts), 'name?');
    task = await client.sendMessage(text('Ada', { taskId: task.id }));
    assert.equal(stateOf(task), 'TASK_STATE_INPUT_REQUIRED');
    const done = await client.sendMessage(text('36', { taskId: task.id, contextId: task.contextId }));
    assert.equal(done.id, task.id);
    assert.equal(stateOf(done), 'TASK_STATE_COMPLETED');
    assert.equal(textOf(done.status.message.parts), 'thanks');
  },

  async directMessage() {
    const { client } = await clientOf('scripted');
    const answer = await client.sendMessage(script([{ message: 'just so' }]));
    assert.equal(answer.role, Role.ROLE_AGENT);
    assert.equal(textOf(answer.parts), 'just so');
    assert.ok(answer.contextId && !answer.taskId, JSON.stringify(Message.toJSON(answer)));
    const events = await collect(client.sendMessageStream(script([{ message: 'just so' }])));
    assert.deepEqual(events.map((event) => event.payload.$case), ['message']);
  },

  async failures() {
    const { client } = await clientOf('scripted');
    const failed = await client.sendMessage(script([{ fail: 'no luck' }]));
    assert.equal(stateOf(failed), 'TASK_STATE_FAILED');
    assert.equal(textOf(failed.status.message.parts), 'no luck');
    const rejected = await client.sendMessage(script([{ reject: 'not for me' }]));
    assert.equal(stateOf(rejected), 'TASK_STATE_REJECTED');
    const asks = await client.sendMessage(script([{ auth: 'sign in' }]));
    assert.equal(stateOf(asks), 'TASK_STATE_AUTH_REQUIRED');
  },

  async errors() {
    const { client } = await clientOf('scripted');
    await refused('TASK_NOT_FOUND', client.getTask({ id: NOBODY }));
    await refused('TASK_NOT_FOUND', client.cancelTask({ id: NOBODY }));
    await refused('TASK_NOT_FOUND', client.resubscribeTask({ id: NOBODY }));
    await refused('TASK_NOT_FOUND', client.sendMessage(text('hi', { taskId: NOBODY })));
    await refused('TASK_NOT_FOUND', client.sendMessageStream(text('hi', { taskId: NOBODY })));
    const done = await client.sendMessage(text('done'));
    await refused('UNSUPPORTED_OPERATION', client.sendMessage(text('more', { taskId: done.id })));
    await refused('UNSUPPORTED_OPERATION', client.resubscribeTask({ id: done.id }));
    await refused('TASK_NOT_CANCELABLE', client.cancelTask({ id: done.id }));
    await refused('TASK_NOT_FOUND', client.resubscribeTask({ id: done.id }, resumeAt(`${NOBODY}.1`)));
  },
};

/** Reads half a stream, drops the connection, and comes back by `back` with the id of the last frame. */
async function leaveAndComeBack(back) {
  const { client, ids } = await clientOf('scripted');
  const sent = script(CHUNKS);
  const abort = new AbortController();
  const left = new Fold();
  let count = 0;
  for await (const event of client.sendMessageStream(sent, { signal: abort.signal })) {
    left.take(event);
    count += 1;
    if (Object.keys(left.artifacts).length > 0 && count >= 5) break;
  }
  const id = ids.seen[count - 1];
  abort.abort();
  assert.ok(id.startsWith(`${left.id}.`), id);

  const whole = new Fold();
  const resumed = Object.assign(new Fold(), structuredClone({ ...left }));
  let index = 0;
  for await (const event of back(client, sent, left.id, resumeAt(id))) {
    whole.take(event);
    if (index === 0) {
      assert.equal(event.payload.$case, 'task');
      assert.equal(ids.seen[0], id);
      assert.deepEqual({ ...whole }, { ...left }, 'the task as it was left');
    } else {
      resumed.take(event);
    }
    index += 1;
  }
  assert.deepEqual({ ...whole }, { ...resumed });
  assert.equal(TaskState[whole.state], 'TASK_STATE_COMPLETED');
  assert.deepEqual(Object.values(whole.artifacts), ['abc '.repeat(12)]);
  assert.deepEqual(whole, Fold.ofTask(await client.getTask({ id: left.id })));
  // The task has settled; the same id still brings the same end.
  const again = new Fold();
  for await (const event of back(client, sent, left.id, resumeAt(id))) again.take(event);
  assert.deepEqual(again, whole);
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
    await within(30_000, scenario());
    console.log(`ok js ${binding} ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED js ${binding} ${name}\n${error?.stack ?? error}`);
  }
}
process.exit(failed > 0 ? 1 : 0);

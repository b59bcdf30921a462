// One call of the JavaScript SDK (1.x): tool.mjs ORIGIN BINDING open STEPS | watch ID | get ID | cancel ID | answer ID TEXT
//
// Prints the results, one JSON value on each line.

import { randomUUID } from 'node:crypto';

import { SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';

const [origin, binding, verb, what, words] = process.argv.slice(2);
const transports = [binding === 'JSONRPC' ? new JsonRpcTransportFactory() : new RestTransportFactory()];
const client = await new ClientFactory({ transports }).createFromUrl(
  `${origin}/a2a/scripted/`,
  '.well-known/agent-card.json',
);
const send = (parts, configuration, taskId) =>
  client.sendMessage(
    SendMessageRequest.fromJSON({ message: { messageId: randomUUID(), role: 'ROLE_USER', parts, taskId }, configuration }),
  );
const show = (thing) => console.log(JSON.stringify(thing));
const showTask = (task) => show(Task.toJSON(task));

const verbs = {
  open: async () => showTask(await send([{ data: { script: JSON.parse(what) } }], { returnImmediately: true })),
  async watch() {
    for await (const event of client.resubscribeTask({ id: what })) show(StreamResponse.toJSON(event));
  },
  get: async () => showTask(await client.getTask({ id: what })),
  cancel: async () => showTask(await client.cancelTask({ id: what })),
  answer: async () => showTask(await send([{ text: words }], {}, what)),
};
await verbs[verb]();

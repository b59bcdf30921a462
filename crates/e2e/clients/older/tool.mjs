// One call of a JavaScript SDK before 1.0:
// tool.mjs js-0.3|js-0.2 ORIGIN BINDING open STEPS | watch ID | get ID | cancel ID | answer ID TEXT
//
// Prints the results, one JSON value on each line.

import { randomUUID } from 'node:crypto';

const [folder, origin, binding, verb, what, words] = process.argv.slice(2);
const sdk = await import(`../${folder}/sdk.mjs`);
const client = await sdk.connect(`${origin}/a2a/scripted`, binding);
const said = (part, members) => ({ kind: 'message', messageId: randomUUID(), role: 'user', parts: [part], ...members });
const show = (thing) => console.log(JSON.stringify(thing));

const verbs = {
  async open() {
    const message = said({ kind: 'data', data: { script: JSON.parse(what) } });
    show(await client.send(message, { blocking: false }));
  },
  async watch() {
    for await (const event of client.resubscribe(what)) show(event);
  },
  get: async () => show(await client.get(what)),
  cancel: async () => show(await client.cancel(what)),
  answer: async () => show(await client.send(said({ kind: 'text', text: words }, { taskId: what }))),
};
await verbs[verb]();

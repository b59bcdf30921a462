// @a2a-js/sdk 0.3 behind the calls of the scenarios. Input and output are JSON of the 0.3 wire.

import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
} from '@a2a-js/sdk/client';

export const NAME = 'js-0.3';
export const BINDINGS = ['JSONRPC', 'HTTP+JSON'];
export const CARD_PATH = '/.well-known/agent-card.json';

/** Members that this version reads and does not return, by binding. */
export const LOSES = { 'HTTP+JSON': ['append', 'file.name'] };

const CODES = new Map([
  [TaskNotFoundError, -32001],
  [TaskNotCancelableError, -32002],
  [UnsupportedOperationError, -32004],
]);

export function cardOf(base) {
  return new DefaultAgentCardResolver().resolve(`${base}/`, '.well-known/agent-card.json');
}

export async function connect(base, binding) {
  const transports = [binding === 'JSONRPC' ? new JsonRpcTransportFactory() : new RestTransportFactory()];
  const client = await new ClientFactory({ transports }).createFromUrl(`${base}/`, '.well-known/agent-card.json');
  return {
    send: (message, configuration = { blocking: true }) => client.sendMessage({ message, configuration }),
    stream: (message, options) => client.sendMessageStream({ message }, options),
    get: (id, historyLength) => client.getTask(historyLength === undefined ? { id } : { id, historyLength }),
    cancel: (id) => client.cancelTask({ id }),
    resubscribe: (id) => client.resubscribeTask({ id }),
  };
}

/** The JSON-RPC code an error of the SDK stands for, if it tells. */
export function codeOf(error) {
  for (const [kind, code] of CODES) {
    if (error instanceof kind) return code;
  }
  const told = /[Cc]ode:? ?(-\d+)/.exec(error.message);
  return told ? Number(told[1]) : undefined;
}

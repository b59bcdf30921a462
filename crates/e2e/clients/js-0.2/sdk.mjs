// @a2a-js/sdk 0.2 behind the calls of the scenarios. Input and output are JSON of the 0.2 wire.

import { A2AClient } from '@a2a-js/sdk/client';

export const NAME = 'js-0.2';
export const BINDINGS = ['JSONRPC'];
export const CARD_PATH = '/.well-known/agent.json';

export function cardOf(base) {
  return new A2AClient(base).getAgentCard();
}

export async function connect(base, binding) {
  if (binding !== 'JSONRPC') throw new Error('this version has only JSON-RPC');
  const client = new A2AClient(base);
  await client.getAgentCard();
  // This version hands the whole JSON-RPC answer out.
  const result = async (call) => {
    const answer = await call;
    if (client.isErrorResponse(answer)) throw new Error(`${answer.error.message} (Code: ${answer.error.code})`);
    return answer.result;
  };
  return {
    send: (message, configuration = {}) =>
      result(client.sendMessage({ message, configuration: { acceptedOutputModes: ['text/plain'], ...configuration } })),
    stream: (message) => client.sendMessageStream({ message }),
    get: (id, historyLength) => result(client.getTask(historyLength === undefined ? { id } : { id, historyLength })),
    cancel: (id) => result(client.cancelTask({ id })),
    resubscribe: (id) => client.resubscribeTask({ id }),
  };
}

/** The JSON-RPC code an error of the SDK stands for, if it tells. */
export function codeOf(error) {
  const told = /Code: (-\d+)/.exec(error.message);
  return told ? Number(told[1]) : undefined;
}

// How a request reaches an agent: at this server from the browser itself, elsewhere by way of the server.

import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { address, problemOf, session } from '../session.svelte';
import { base64, fromBase64 } from './curl';
import type { CallRequest } from './requests';

export interface Exchange {
  status: number;
  /** The rest of the answer's first line, as far as it is known. */
  line: string;
  headers: [string, string][];
  pieces: AsyncIterable<Uint8Array>;
}

export type Transport = (request: CallRequest, encoded: Uint8Array<ArrayBuffer> | null, signal: AbortSignal) => Promise<Exchange>;

function allHeaders({ headers, credential }: CallRequest): [string, string][] {
  return credential ? [...headers, credential] : headers;
}

async function* piecesOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (!body) return;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}

/** From this page: the session of the console has no part in it. */
export const direct: Transport = async (request, encoded, signal) => {
  const answer = await fetch(request.url, {
    method: request.method,
    headers: allHeaders(request),
    body: encoded ?? request.body,
    credentials: 'omit',
    cache: 'no-store',
    redirect: 'manual',
    signal,
  });
  return { status: answer.status, line: answer.statusText, headers: [...answer.headers], pieces: piecesOf(answer.body) };
};

type CallEvent =
  | { kind: 'head'; status: number; version: string; headers: [string, string][] }
  | { kind: 'body'; base64: string }
  | { kind: 'end' }
  | { kind: 'failed'; reason: string };

/** The request broke off elsewhere. */
export class BrokenOff extends Error {}

async function* eventsOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<CallEvent> {
  for await (const message of messagesOf(piecesOf(body))) yield JSON.parse(message.data) as CallEvent;
}

/** The frames of an event stream, as they come. */
export async function* messagesOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<EventSourceMessage> {
  let waiting: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => waiting.push(message) });
  const decoder = new TextDecoder();
  for await (const piece of pieces) {
    parser.feed(decoder.decode(piece, { stream: true }));
    const now = waiting;
    waiting = [];
    yield* now;
  }
}

/** By way of the server, which asks its policy for outbound addresses. */
export const through: Transport = async (request, encoded, signal) => {
  const headers = allHeaders(request).map(([name, value]) => ({ name, value }));
  const body = encoded ? { bodyBase64: base64(encoded) } : request.body === null ? {} : { body: request.body };
  const answer = await fetch(address('/playground:call'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream', 'x-csrf-token': session.current?.csrf ?? '' },
    body: JSON.stringify({ url: request.url, method: request.method, headers, ...body }),
    credentials: 'same-origin',
    signal,
  });
  if (!answer.ok) throw await problemOf(answer);
  const events = eventsOf(answer.body);
  const first = await events.next();
  if (first.done || first.value.kind !== 'head') throw new BrokenOff('the server gave no answer');
  const { status, version, headers: given } = first.value;
  return { status, line: version, headers: given, pieces: bodyOf(events) };
};

async function* bodyOf(events: AsyncIterable<CallEvent>): AsyncGenerator<Uint8Array> {
  for await (const event of events) {
    if (event.kind === 'body') yield fromBase64(event.base64);
    else if (event.kind === 'end') return;
    else if (event.kind === 'failed') throw new BrokenOff(`the other server ${event.reason}`);
  }
  throw new BrokenOff('the connection ended within the answer');
}

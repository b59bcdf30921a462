// A call as it is composed, without its credential.

export const VERSIONS = ['1.0', '0.3', '0.2', '0.1'] as const;
export type Version = (typeof VERSIONS)[number];

export const BINDINGS = { jsonrpc: 'JSON-RPC', http: 'HTTP+JSON', grpc: 'gRPC' } as const;
export type Binding = keyof typeof BINDINGS;

/** The bindings that a version has. */
export function bindingsOf(version: Version): Binding[] {
  return version === '1.0' || version === '0.3' ? ['jsonrpc', 'http', 'grpc'] : ['jsonrpc'];
}

export const MODES = { send: 'Wait for the answer', stream: 'Stream' } as const;
export type Mode = keyof typeof MODES;

export type Action = Mode | 'get' | 'list' | 'cancel' | 'subscribe';

export const AUTH = { none: 'None', bearer: 'Authorization: Bearer', key: 'X-Api-Key' } as const;
export type Auth = keyof typeof AUTH;

export interface PickedFile {
  name: string;
  mediaType: string;
  bytes: number;
  base64: string;
}

export interface Draft {
  version: Version;
  binding: Binding;
  text: string;
  /** JSON, or nothing. */
  data: string;
  files: PickedFile[];
  /** URIs, one a line. */
  extensions: string;
  /** `Name: value`, one a line. */
  headers: string;
  taskId: string;
  contextId: string;
}

/** A config for webhooks that goes with a message. */
export interface PushWish {
  url: string;
  token: string;
}

/** A call that cannot be made as it is written. */
export class DraftError extends Error {}

export function blank(): Draft {
  return { version: '1.0', binding: 'jsonrpc', text: '', data: '', files: [], extensions: '', headers: '', taskId: '', contextId: '' };
}

/** The extra headers; those without a value are left out. */
export function extraHeaders(text: string): [string, string][] {
  const headers: [string, string][] = [];
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line === '') continue;
    const at = line.indexOf(':');
    const name = line.slice(0, at).trim();
    if (at < 1 || !/^[\w!#$%&'*+.^`|~-]+$/.test(name)) throw new DraftError(`The header ${JSON.stringify(line)} is not written as Name: value.`);
    const value = line.slice(at + 1).trim();
    if (value !== '') headers.push([name, value]);
  }
  return headers;
}

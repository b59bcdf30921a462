// The request of an action in each version and binding.

import { DraftError, extraHeaders, type Action, type Draft, type PushWish } from './draft';
import { freshId } from './ids';

/** A request of gRPC: its message as JSON, which is encoded when it is sent. */
export interface GrpcCall {
  service: 'lf.a2a.v1.A2AService' | 'a2a.v1.A2AService';
  method: string;
  message: unknown;
}

export interface CallRequest {
  /** The operation in the words of its version. */
  title: string;
  method: 'GET' | 'POST';
  url: string;
  /** Without the credential. */
  headers: [string, string][];
  credential: [string, string] | null;
  body: string | null;
  grpc: GrpcCall | null;
  isStream: boolean;
}

interface Extras {
  credential: [string, string] | null;
  lastEventId?: string;
  push?: PushWish | null;
}

/** How messages are written: in 1.0, in the protobuf forms of 0.3, in JSON-RPC of 0.3 and 0.2, and in 0.1. */
type Form = 'v1' | 'v03proto' | 'v03' | 'v01';

function formOf({ version, binding }: Draft): Form {
  if (version === '1.0') return 'v1';
  if (version === '0.1') return 'v01';
  return binding === 'jsonrpc' ? 'v03' : 'v03proto';
}

const METHODS: Record<Exclude<Form, 'v03proto'>, Record<Action, string>> = {
  v1: { send: 'SendMessage', stream: 'SendStreamingMessage', get: 'GetTask', list: 'ListTasks', cancel: 'CancelTask', subscribe: 'SubscribeToTask' },
  v03: { send: 'message/send', stream: 'message/stream', get: 'tasks/get', list: '', cancel: 'tasks/cancel', subscribe: 'tasks/resubscribe' },
  v01: { send: 'tasks/send', stream: 'tasks/sendSubscribe', get: 'tasks/get', list: '', cancel: 'tasks/cancel', subscribe: 'tasks/resubscribe' },
};
const LISTED = 20;

/** Only 1.0 has lists. */
export function canList(draft: Draft): boolean {
  return draft.version === '1.0';
}

/** The request of an action at an agent's address. */
export function compose(draft: Draft, action: Action, address: string, extras: Extras): CallRequest {
  const base = address.replace(/\/+$/, '');
  const isStream = action === 'stream' || action === 'subscribe';
  const form = formOf(draft);
  const made =
    draft.binding === 'jsonrpc' ? byJsonRpc(draft, action, base, extras, form)
    : draft.binding === 'http' ? byHttp(draft, action, base, extras, form)
    : byGrpc(draft, action, base, extras, form);
  const headers: [string, string][] = [];
  if (draft.version === '0.1') headers.push(['X-A2A-Dialect', 'a2a_v0_1']);
  else headers.push(['A2A-Version', draft.version]);
  if (made.grpc) headers.push(['Content-Type', 'application/grpc-web+proto'], ['X-Grpc-Web', '1']);
  else {
    headers.push(['Accept', isStream ? 'text/event-stream' : 'application/json']);
    if (made.body !== null) headers.push(['Content-Type', 'application/json']);
  }
  const extensions = draft.extensions.split(/[\s,]+/).filter(Boolean);
  if (extensions.length > 0) headers.push([draft.version === '1.0' ? 'A2A-Extensions' : 'X-A2A-Extensions', extensions.join(', ')]);
  if (extras.lastEventId) headers.push(['Last-Event-ID', extras.lastEventId]);
  const own = extraHeaders(draft.headers);
  const replaced = new Set(own.map(([name]) => name.toLowerCase()));
  const all = [...headers.filter(([name]) => !replaced.has(name.toLowerCase())), ...own];
  return { ...made, headers: all, credential: extras.credential, isStream };
}

type Made = Pick<CallRequest, 'title' | 'method' | 'url' | 'body' | 'grpc'>;

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

function byJsonRpc(draft: Draft, action: Action, base: string, extras: Extras, form: Form): Made {
  const method = METHODS[form === 'v03proto' ? 'v03' : form][action];
  if (!method) throw new DraftError('This version has no list of tasks.');
  const params = isSend(action) ? sendParams(draft, extras, form) : action === 'list' ? listParams(draft) : { id: taskOf(draft) };
  const body = json({ jsonrpc: '2.0', id: freshId(), method, params });
  return { title: method, method: 'POST', url: base, body, grpc: null };
}

function byHttp(draft: Draft, action: Action, base: string, extras: Extras, form: Form): Made {
  const root = form === 'v1' ? base : `${base}/v1`;
  const made = (method: 'GET' | 'POST', path: string, body: unknown = null): Made => ({
    title: `${method} ${path.split('?')[0] ?? ''}`,
    method,
    url: root + path,
    body: body === null ? null : json(body),
    grpc: null,
  });
  if (isSend(action)) return made('POST', `/message:${action}`, sendParams(draft, extras, form));
  if (action === 'list') {
    if (form !== 'v1') throw new DraftError('This version has no list of tasks.');
    const query = Object.entries(listParams(draft)).map(([name, value]): [string, string] => [name, String(value)]);
    return made('GET', `/tasks?${new URLSearchParams(query).toString()}`);
  }
  const task = `/tasks/${encodeURIComponent(taskOf(draft))}`;
  if (action === 'get') return made('GET', task);
  return action === 'cancel' ? made('POST', `${task}:cancel`) : made('GET', `${task}:subscribe`);
}

function byGrpc(draft: Draft, action: Action, base: string, extras: Extras, form: Form): Made {
  const service = form === 'v1' ? 'lf.a2a.v1.A2AService' : 'a2a.v1.A2AService';
  let method = METHODS.v1[action];
  let message: unknown;
  if (isSend(action)) {
    message = sendParams(draft, extras, form);
  } else if (form === 'v1') {
    message = action === 'list' ? listParams(draft) : { id: taskOf(draft) };
  } else {
    if (action === 'list') throw new DraftError('This version has no list of tasks.');
    if (action === 'subscribe') method = 'TaskSubscription';
    message = { name: `tasks/${taskOf(draft)}` };
  }
  return { title: method, method: 'POST', url: `${base}/${service}/${method}`, body: null, grpc: { service, method, message } };
}

function isSend(action: Action): action is 'send' | 'stream' {
  return action === 'send' || action === 'stream';
}

function taskOf(draft: Draft): string {
  if (!draft.taskId) throw new DraftError('Name the task.');
  return draft.taskId;
}

function listParams(draft: Draft): Record<string, unknown> {
  return { pageSize: LISTED, ...(draft.contextId ? { contextId: draft.contextId } : {}) };
}

function sendParams(draft: Draft, { push }: Extras, form: Form): unknown {
  const { taskId, contextId } = draft;
  const parts = partsOf(draft, form);
  if (form === 'v01') {
    return {
      id: taskId || freshId(),
      ...(contextId ? { sessionId: contextId } : {}),
      message: { role: 'user', parts },
      ...(push ? { pushNotification: push } : {}),
    };
  }
  const message = {
    ...(form === 'v03' ? { kind: 'message' } : {}),
    messageId: freshId(),
    role: form === 'v03' ? 'user' : 'ROLE_USER',
    [form === 'v03proto' ? 'content' : 'parts']: parts,
    ...(taskId ? { taskId } : {}),
    ...(contextId ? { contextId } : {}),
  };
  if (form === 'v1') return { message, ...(push ? { configuration: { taskPushNotificationConfig: push } } : {}) };
  const name = form === 'v03' ? 'pushNotificationConfig' : 'pushNotification';
  return { message, configuration: { blocking: true, ...(push ? { [name]: push } : {}) } };
}

function partsOf(draft: Draft, form: Form): unknown[] {
  const parts: unknown[] = [];
  if (draft.text) parts.push(form === 'v03' ? { kind: 'text', text: draft.text } : form === 'v01' ? { type: 'text', text: draft.text } : { text: draft.text });
  for (const { name, mediaType, base64 } of draft.files) {
    const file = { name, mimeType: mediaType, bytes: base64 };
    if (form === 'v1') parts.push({ raw: base64, filename: name, mediaType });
    else if (form === 'v03proto') parts.push({ file: { fileWithBytes: base64, mimeType: mediaType, name } });
    else parts.push(form === 'v03' ? { kind: 'file', file } : { type: 'file', file });
  }
  if (draft.data.trim() !== '') {
    const data = dataOf(draft.data);
    if (form === 'v1') parts.push({ data });
    else if (data === null || typeof data !== 'object' || Array.isArray(data)) throw new DraftError('Before 1.0 data is an object: {"name": value}.');
    else if (form === 'v03proto') parts.push({ data: { data } });
    else parts.push(form === 'v03' ? { kind: 'data', data } : { type: 'data', data });
  }
  if (parts.length === 0) throw new DraftError('The message is empty: write a text, or add a file or data.');
  return parts;
}

function dataOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new DraftError(`The data is no JSON: ${error instanceof Error ? error.message : ''}`);
  }
}

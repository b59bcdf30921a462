// Who is signed in, and the calls that are made in that name.

import { API, type Operation, type Session } from './api';

/** A refused call, as RFC 9457 describes it. */
export class Problem extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

type Known = { state: 'asking' } | { state: 'out'; why: string } | { state: 'in'; session: Session };

let known = $state.raw<Known>({ state: 'asking' });

export const session = {
  get known(): Known {
    return known;
  },
  get current(): Session | null {
    return known.state === 'in' ? known.session : null;
  },
};

/** Whether the role of the session covers an operation. Without it, its buttons are not shown. */
export function may(operation: Operation): boolean {
  return known.state === 'in' && known.session.operations.includes(operation);
}

interface Options {
  body?: unknown;
  query?: Record<string, string | number | undefined>;
  signal?: AbortSignal;
}

/** One call of the admin API. */
export async function call<T>(method: 'GET' | 'POST' | 'DELETE', path: string, options: Options = {}): Promise<T> {
  const headers: Record<string, string> = { accept: 'application/json' };
  if (options.body !== undefined) headers['content-type'] = 'application/json';
  if (method !== 'GET' && known.state === 'in') headers['x-csrf-token'] = known.session.csrf;
  const answer = await fetch(address(path, options.query), {
    method,
    headers,
    body: options.body === undefined ? null : JSON.stringify(options.body),
    signal: options.signal ?? null,
    credentials: 'same-origin',
  });
  if (answer.ok) return (answer.status === 204 ? undefined : await answer.json()) as T;
  const problem = await problemOf(answer);
  if (problem.status === 401 && known.state === 'in') known = { state: 'out', why: 'Your session has ended. Sign in again.' };
  throw problem;
}

export function address(path: string, query: Options['query'] = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string | number] => pair[1] !== undefined && pair[1] !== '');
  const search = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return API + path + (search ? `?${search}` : '');
}

export async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    const said = JSON.parse(text) as { detail?: string; title?: string };
    return new Problem(answer.status, said.detail ?? said.title ?? `status ${answer.status}`);
  } catch {
    return new Problem(answer.status, text.trim() || `The server answered with status ${answer.status}.`);
  }
}

/** The session of the cookie, or the one of a link with a token that can be used once. */
export async function begin(): Promise<void> {
  const link = new URLSearchParams(location.hash.slice(1)).get('link');
  try {
    if (link) {
      history.replaceState(null, '', location.pathname + location.search);
      await signIn({ link });
    } else {
      known = { state: 'in', session: await call<Session>('GET', '/session') };
    }
  } catch (error) {
    const isNew = error instanceof Problem && error.status === 401 && !link;
    known = { state: 'out', why: isNew ? '' : said(error) };
  }
}

export async function signIn(by: { key: string } | { link: string }): Promise<void> {
  known = { state: 'in', session: await call<Session>('POST', '/session', { body: by }) };
}

export async function signOut(): Promise<void> {
  await call('DELETE', '/session');
  known = { state: 'out', why: '' };
}

export function said(error: unknown): string {
  if (error instanceof Problem) return error.message;
  return error instanceof Error && error.name === 'AbortError' ? '' : 'The server cannot be reached.';
}

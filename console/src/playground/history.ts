// The calls of earlier, in this browser. No credential is kept: neither the field's, nor values of headers that may hold one,
// nor the query of an address.

import { blank, type Auth, type Draft, type Mode } from './draft';

export interface PastCall {
  at: string;
  agent: string;
  url: string;
  mode: Mode;
  auth: Auth;
  draft: Draft;
  /** The names of files that were too large to keep. */
  left: string[];
  outcome: string;
}

const MOST = 50;
/** The most characters of one call, and of all. */
const ONE = 64_000;
const ALL = 512_000;
/** Headers whose values are kept. */
const PLAIN = /^(accept|accept-language|content-type|idempotency-key|last-event-id|traceparent|x?-?a2a-[a-z-]+)$/i;
const TOKEN = /token|secret|key|auth/i;

function keyOf(caller: string, tenant: string): string {
  return `rialto.playground.${tenant}.${caller}`;
}

/** The lines of extra headers without values that may be secret. */
function plainHeaders(text: string): string {
  return text
    .split('\n')
    .map((line) => {
      const at = line.indexOf(':');
      const name = line.slice(0, Math.max(at, 0)).trim();
      return PLAIN.test(name) && !TOKEN.test(name.replace(/^idempotency-key$/i, '')) ? line : at > 0 ? `${name}:` : '';
    })
    .filter((line) => line !== '')
    .join('\n');
}

/** An address without a user, a query and a fragment. */
export function plainUrl(text: string): string {
  try {
    const url = new URL(text);
    [url.username, url.password, url.search, url.hash] = ['', '', '', ''];
    return url.href;
  } catch {
    return '';
  }
}

/** A call as it is kept. */
export function plain(call: Omit<PastCall, 'left'>): PastCall {
  const draft = { ...call.draft, headers: plainHeaders(call.draft.headers) };
  const kept = { ...call, url: plainUrl(call.url), draft, left: [] };
  if (JSON.stringify(kept).length <= ONE) return kept;
  const names = draft.files.map(({ name }) => name);
  const small = { ...kept, draft: { ...draft, files: [] }, left: names };
  if (JSON.stringify(small).length <= ONE) return small;
  return { ...small, draft: { ...small.draft, text: '', data: '' }, left: ['the message', ...names] };
}

export class History {
  calls: PastCall[];
  #key: string;

  constructor(caller: string, tenant: string) {
    this.#key = keyOf(caller, tenant);
    this.calls = this.#stored();
  }

  /** Adds a call, and forgets the oldest beyond the bounds. */
  add(call: PastCall): PastCall[] {
    const calls = [call, ...this.calls].slice(0, MOST);
    while (calls.length > 1 && JSON.stringify(calls).length > ALL) calls.pop();
    this.calls = calls;
    try {
      localStorage.setItem(this.#key, JSON.stringify(calls));
    } catch {
      // A browser without room keeps none.
    }
    return calls;
  }

  clear(): PastCall[] {
    this.calls = [];
    localStorage.removeItem(this.#key);
    return this.calls;
  }

  #stored(): PastCall[] {
    try {
      const read: unknown = JSON.parse(localStorage.getItem(this.#key) ?? '[]');
      if (!Array.isArray(read)) return [];
      return (read as PastCall[]).map((call) => ({ ...call, draft: { ...blank(), ...call.draft } }));
    } catch {
      return [];
    }
  }
}

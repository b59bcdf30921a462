// The states of nodes: a sign and a word say them; colour only helps.

import { duration } from '../lib/time';
import type { SystemNode, SystemVisit } from './types';

type Tone = 'good' | 'bad' | 'wait' | 'active' | '';

const STATES: Record<string, [string, Tone]> = {
  waiting: ['○', ''],
  'waiting for approval': ['?', 'wait'],
  'waiting for an answer': ['?', 'wait'],
  running: ['▶', 'active'],
  done: ['✓', 'good'],
  failed: ['✗', 'bad'],
  denied: ['⊘', 'bad'],
  cancelled: ['■', ''],
  skipped: ['–', ''],
};

export function sign(state: string): string {
  return STATES[state]?.[0] ?? '';
}

export function tone(state: string | null): Tone {
  return state === null ? '' : (STATES[state]?.[1] ?? '');
}

/** How long a visit took, or has been going on. */
export function lasted(visit: SystemVisit, now: number): string {
  if (visit.ms !== null) return duration(visit.ms);
  const began = visit.began === null ? NaN : Date.parse(visit.began);
  return Number.isNaN(began) || visit.state !== 'running' ? '' : `${duration(now - began)} so far`;
}

/** The visit that a node's state is of. */
export function last(node: SystemNode): SystemVisit | undefined {
  return node.visits.at(-1);
}

export function isAsking(node: SystemNode): boolean {
  return node.state === 'waiting for approval' || node.state === 'waiting for an answer';
}

// What an operator should look at, as `rialto doctor` has it.

import type { Health } from '../api';
import { href } from '../router.svelte';

export interface Advice {
  text: string;
  /** Where to look. */
  to?: string;
}

const LARGE_WAL_BYTES = 256 * 1024 * 1024;

export function advice(health: Health): Advice[] {
  const found: Advice[] = [];
  if (health.trouble) found.push({ text: `${health.trouble}: make room or mend the folder's rights; the server goes on by itself` });
  if (health.lost) found.push({ text: 'Committed pages of the write-ahead log were missing at a start: rialto doctor says what to do' });
  if (health.walBytes > LARGE_WAL_BYTES) found.push({ text: 'The write-ahead log is large: is a long read or a backup in the way?' });
  if (health.pushDead > 0) {
    found.push({ text: `Webhooks were given up: ${health.pushDead}`, to: href(['deliveries'], { state: 'dead' }) });
  }
  for (const replica of health.replicas) {
    if (!replica.alive) found.push({ text: `Replica ${replica.no} is silent since ${Math.round(replica.silentMs / 1_000)} s` });
  }
  found.push(...(health.leftAlone ?? []).map((text) => ({ text })));
  for (const { id, cause } of health.unreadable) {
    found.push({ text: `A task cannot be read (${cause}): restore it from a backup, or purge it`, to: href(['tasks', id]) });
  }
  for (const { id, chore, attempts, cause } of health.setbacks) {
    found.push({ text: `A task could not be looked after (${chore}, ${attempts} attempts: ${cause}); it is tried again by itself`, to: href(['tasks', id]) });
  }
  for (const { id, agent, statusAt } of health.openTurns) {
    if (Date.parse(health.now) - Date.parse(statusAt) > health.turnTimeoutMs) {
      found.push({ text: `The agent ${agent} has had nothing to say of a task since ${statusAt}`, to: href(['tasks', id]) });
    }
  }
  return found;
}

// What an event of a log tells a reader, and whose doing it was.

import type { LogEvent, Message, Part } from '../api';

export type Lane = 'caller' | 'engine' | 'agent' | 'webhooks';

export const LANES: [Lane, string][] = [
  ['caller', 'Caller'],
  ['engine', 'Engine'],
  ['agent', 'Agent'],
  ['webhooks', 'Webhooks'],
];

export interface Told {
  lane: Lane;
  title: string;
  text: string;
  isBad: boolean;
}

const SETTLED = ['completed', 'failed', 'canceled', 'rejected'];
const WAITING = ['input-required', 'auth-required'];
const LONGEST = 1_000;

/** The word for a state of A2A 1.0, such as TASK_STATE_INPUT_REQUIRED. */
export function word(state: string): string {
  return state.replace(/^TASK_STATE_/, '').toLowerCase().replaceAll('_', '-');
}

export function partText(part: Part): string {
  if (part.text !== undefined) return part.text;
  if (part.data !== undefined) return JSON.stringify(part.data);
  return `file ${part.filename ?? part.mediaType ?? part.url ?? ''}`.trim();
}

export function isAgent(role: string): boolean {
  return role.toLowerCase().includes('agent');
}

export function textOf(message: Message | undefined): string {
  return partsText(message?.parts);
}

function partsText(parts: Part[] | undefined): string {
  const text = (parts ?? []).map(partText).join('\n');
  return text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
}

export function isSettled(state: string): boolean {
  return SETTLED.includes(state);
}

/** Whether a task waits for a message. */
export function waits(state: string): boolean {
  return WAITING.includes(state);
}

/** Whether nothing follows an event. */
export function settles(event: LogEvent): boolean {
  const state = event.content?.statusUpdate?.status.state;
  return event.kind === 'reply' || (state !== undefined && SETTLED.includes(word(state)));
}

export function describe(event: LogEvent): Told {
  const told = (lane: Lane, title: string, text = '', isBad = false): Told => ({ lane, title, text, isBad });
  const fact = (name: string): string => String(event.facts?.[name] ?? '');
  const { message, statusUpdate, artifactUpdate } = event.content ?? {};
  switch (event.kind) {
    case 'opened':
      return told('engine', 'Task opened', `by ${fact('owner')} for the agent ${fact('agent')}, in ${fact('dialect')}`);
    case 'message':
      return told('caller', 'Message', textOf(message));
    case 'turn': {
      const attempt = Number(event.facts?.['attempt'] ?? 1);
      if (attempt <= 1) return told('engine', 'Turn begins');
      return told('engine', `Turn begins again (attempt ${attempt})`, 'The process that ran it was restarted, or another replica took it over.');
    }
    case 'bound':
      return told('engine', 'Bound to a remote task', fact('remote'));
    case 'status': {
      const state = word(statusUpdate?.status.state ?? '');
      const isBad = state === 'failed' || state === 'rejected';
      return told('agent', `Status: ${state}`, textOf(statusUpdate?.status.message), isBad);
    }
    case 'artifact': {
      const artifact = artifactUpdate?.artifact;
      const title = artifactUpdate?.append ? 'More of artifact' : 'Artifact';
      return told('agent', `${title} ${artifact?.name ?? artifact?.artifactId ?? ''}`, partsText(artifact?.parts));
    }
    case 'reply':
      return told('agent', 'Reply', textOf(message));
    case 'metadata':
      return told('agent', 'Metadata', JSON.stringify(event.metadata));
    case 'cancel':
      return told('caller', 'Cancel requested');
  }
}

// The outcome of a task as lines of text, for a comparison with another one.

import type { TaskDetail } from '../api';
import { duration } from '../lib/time';
import { isSettled, partText, word } from './events';

/** State, status and artifacts; ids and times differ between any two tasks and are left out. */
export function outcome({ task }: TaskDetail): string {
  const lines = [`state: ${word(task.status.state)}`];
  const says = task.status.message?.parts ?? [];
  if (says.length > 0) lines.push('status:', ...says.flatMap((part) => indented(partText(part))));
  for (const [at, artifact] of (task.artifacts ?? []).entries()) {
    lines.push(`artifact ${at + 1}${artifact.name ? ` ${artifact.name}` : ''}:`);
    if (artifact.description) lines.push(...indented(`(${artifact.description})`));
    lines.push(...(artifact.parts ?? []).flatMap((part) => indented(partText(part))));
  }
  return lines.join('\n');
}

function indented(text: string): string[] {
  return text.split('\n').map((line) => `  ${line}`);
}

/** The time from the opening to the newest status. */
export function took({ summary }: TaskDetail): string {
  const time = duration(Date.parse(summary.updatedAt) - Date.parse(summary.createdAt));
  return isSettled(summary.state) ? time : `${time} so far`;
}

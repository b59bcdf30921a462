// The dialects that a task can be shown in.

import type { TaskRow } from '../api';

export const DIALECTS = ['1.0', '0.3', '0.2', '0.1'] as const;

/** The version of A2A that a task was opened in; none for the dialect of a product. */
export function own(dialect: string): string | null {
  if (!dialect.startsWith('a2a_v')) return null;
  return dialect === 'a2a_v0_3' ? '0.3' : dialect === 'a2a_v0_1' ? '0.1' : '1.0';
}

/** The command that asks for the task in a dialect. */
export function curl(dialect: string, origin: string, task: TaskRow): string {
  const address = `${origin}/a2a/${encodeURIComponent(task.agent)}`;
  const key = `-H "Authorization: Bearer $RIALTO_KEY"`;
  const id = task.alias ?? task.id;
  if (dialect === '1.0') return `curl -s ${quoted(`${address}/tasks/${encodeURIComponent(id)}`)} -H 'A2A-Version: 1.0' ${key}`;
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { id } });
  const version = dialect === '0.1' ? `-H 'X-A2A-Dialect: a2a_v0_1'` : `-H 'A2A-Version: ${dialect}'`;
  return `curl -s ${quoted(address)} ${version} ${key} -H 'Content-Type: application/json' -d ${quoted(body)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

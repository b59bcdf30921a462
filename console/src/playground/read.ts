// Answers and events of every version, as far as the page needs to understand them.

export interface Understood {
  title: string;
  text: string;
  isBad: boolean;
  taskId: string;
  contextId: string;
  /** Such as `input-required`; nothing where the event has none. */
  state: string;
  /** A whole task, as a resumed stream begins with. */
  isTask: boolean;
}

type Members = Record<string, unknown>;

const LONGEST = 4_000;
const SETTLED = ['completed', 'failed', 'canceled', 'rejected'];

export function isSettled(state: string): boolean {
  return SETTLED.includes(state);
}

function members(value: unknown): Members | null {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Members) : null;
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The first member of these names that is an object. */
function first(value: Members, ...names: string[]): Members | null {
  for (const name of names) {
    const found = members(value[name]);
    if (found) return found;
  }
  return null;
}

function stateOf(status: Members | null): string {
  const word = text(status?.['state']).replace(/^TASK_STATE_/, '').toLowerCase().replaceAll('_', '-');
  return word === 'cancelled' ? 'canceled' : word;
}

function partText(part: unknown): string {
  const one = members(part);
  if (!one) return '';
  if (typeof one['text'] === 'string') return one['text'];
  if (one['data'] !== undefined) return JSON.stringify(one['data']);
  const file = first(one, 'file') ?? one;
  return `file ${text(file['name']) || text(file['filename']) || text(file['uri']) || text(file['url'])}`.trim();
}

function said(message: Members | null): string {
  return list(message?.['parts'] ?? message?.['content']).map(partText).join('\n');
}

function short(words: string): string {
  return words.length > LONGEST ? `${words.slice(0, LONGEST)} …` : words;
}

/** Reads an answer or event. */
export function understand(answer: unknown): Understood {
  const nothing = { isBad: false, taskId: '', contextId: '', state: '', isTask: false };
  const outer = members(answer);
  if (!outer) return { ...nothing, title: 'Answer', text: short(JSON.stringify(answer) ?? '') };
  const fault = first(outer, 'error');
  if (fault) {
    const code = fault['code'] ?? fault['status'] ?? '';
    return { ...nothing, title: `Error ${String(code)}`.trim(), text: short(text(fault['message'])), isBad: true };
  }
  const value = outer['jsonrpc'] === undefined ? outer : (members(outer['result']) ?? {});
  if (Array.isArray(value['tasks'])) return { ...nothing, title: `Tasks: ${value['tasks'].length}`, text: value['tasks'].map(listed).join('\n') };
  const kind = text(value['kind']);
  const message = first(value, 'msg') ?? (kind === 'message' ? value : value['status'] ? null : first(value, 'message'));
  if (message && !value['artifact']) return { ...nothing, ...ids(message, ''), title: 'Message', text: short(said(message)) };
  const artifactUpdate = first(value, 'artifactUpdate') ?? (value['artifact'] ? value : null);
  if (artifactUpdate) {
    const artifact = first(artifactUpdate, 'artifact');
    const name = text(artifact?.['name']) || text(artifact?.['artifactId']);
    const more = artifactUpdate['append'] ?? artifact?.['append'];
    const found = ids(artifactUpdate, text(artifactUpdate['taskId']) ? '' : 'id');
    return { ...nothing, ...found, title: `${more === true ? 'More of artifact' : 'Artifact'} ${name}`, text: short(said(artifact)) };
  }
  const isEvent = value['final'] !== undefined && kind !== 'task' && value['artifacts'] === undefined;
  const update = first(value, 'statusUpdate') ?? (kind === 'status-update' || isEvent ? value : null);
  if (update) {
    const status = first(update, 'status');
    const state = stateOf(status);
    const found = ids(update, text(update['taskId']) ? '' : 'id');
    return { ...nothing, ...found, title: `Status: ${state}`, text: short(said(first(status ?? {}, 'message'))), state, isBad: isFailure(state) };
  }
  const task = first(value, 'task') ?? (value['status'] ? value : null);
  if (task) {
    const status = first(task, 'status');
    const state = stateOf(status);
    const artifacts = list(task['artifacts']).map((one) => said(members(one)));
    const words = [said(first(status ?? {}, 'message')), ...artifacts].filter(Boolean).join('\n');
    return { ...nothing, ...ids(task, 'id'), title: `Task: ${state}`, text: short(words), state, isBad: isFailure(state), isTask: true };
  }
  return { ...nothing, title: 'Answer', text: short(JSON.stringify(value)) };
}

function isFailure(state: string): boolean {
  return state === 'failed' || state === 'rejected';
}

function ids(value: Members, own: string): { taskId: string; contextId: string } {
  return { taskId: text(value['taskId']) || (own ? text(value[own]) : ''), contextId: text(value['contextId']) || text(value['sessionId']) };
}

function listed(task: unknown): string {
  const one = members(task) ?? {};
  return `${text(one['id'])} ${stateOf(first(one, 'status'))}`;
}

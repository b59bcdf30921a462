// The admin API as this console uses it: the types of its answers.

export const API = '/api/admin/v1';

/** Ids of operations, as the OpenAPI document has them. */
export type Operation =
  | 'get_overview'
  | 'get_events'
  | 'get_overview_history'
  | 'get_limits'
  | 'get_tasks'
  | 'post_tasks__id__cancel'
  | 'post_tasks__id__answer'
  | 'post_agents__name__send'
  | 'delete_tasks__id'
  | 'get_agents'
  | 'get_agents__name__cards'
  | 'get_agents__name__drift'
  | 'post_agents__name__test'
  | 'get_deliveries'
  | 'post_tasks__id__deliveries_redeliver'
  | 'get_keys'
  | 'post_keys'
  | 'delete_keys__id'
  | 'post_policy_check'
  | 'get_health'
  | 'get_replicas'
  | 'get_config'
  | 'post_config_reload'
  | 'get_audit'
  | 'post_playground_call'
  | 'post_receivers'
  | 'get_receivers__id'
  | 'delete_receivers__id'
  | 'get_systems'
  | 'get_tasks__id__money'
  | 'get_ledger'
  | 'post_ledger_verify'
  | 'get_orders';

export interface Session {
  caller: string;
  tenant: string;
  role: 'admin' | 'operator' | 'viewer';
  allTenants: boolean;
  operations: string[];
  /** The pages of the products that this server has. */
  pages: string[];
  /** Sent back with every change. */
  csrf: string;
}

export interface Overview {
  version: string;
  uptimeS: number;
  tasks: { open: number; waiting: number; failed: number; exact: boolean };
  /** Of the whole server; null for a caller of one tenant. */
  runningTurns: number | null;
  deliveries: { active: number; dead: number } | null;
  agents: number;
  replicas: number;
}

/** What the advice is taken from. */
export interface Health {
  tasks: number;
  openTurns: { id: string; agent: string; state: string; statusAt: string }[];
  unreadable: { id: string; cause: string }[];
  setbacks: { id: string; chore: string; since: string; attempts: number; cause: string }[];
  replicas: { no: number; alive: boolean; silentMs: number }[];
  turnTimeoutMs: number;
  now: string;
  pushDead: number;
  fileBytes: number;
  walBytes: number;
  trouble: string | null;
  lost: Record<string, unknown> | null;
  leftAlone: string[] | null;
}

export interface TaskRow {
  id: string;
  alias: string | null;
  context: string;
  agent: string;
  tenant: string;
  owner: string;
  state: string;
  shape: 'task' | 'undecided' | 'reply';
  dialect: string;
  createdAt: string;
  updatedAt: string;
  events: number;
  turns: number;
  message: string | null;
}

/** A task of a list that cannot be read. */
export interface UnreadableTask {
  id: string;
  unreadable: string;
}

export type ListedTask = TaskRow | UnreadableTask;

export interface TaskPage {
  tasks: ListedTask[];
  next: string | null;
}

// Content is in the form of A2A 1.0.

export interface Part {
  text?: string;
  data?: unknown;
  raw?: string;
  url?: string;
  filename?: string;
  mediaType?: string;
  metadata?: unknown;
}

export interface Message {
  messageId: string;
  role: string;
  parts?: Part[];
  metadata?: unknown;
}

export interface Artifact {
  artifactId: string;
  name?: string;
  description?: string;
  parts?: Part[];
}

export interface TaskStatus {
  state: string;
  message?: Message;
}

export interface TaskDetail {
  summary: TaskRow;
  task: {
    status: TaskStatus;
    history?: Message[];
    artifacts?: Artifact[];
    metadata?: unknown;
  };
  pushConfigs: Delivery[];
}

export interface LogEvent {
  seq: number;
  at: string;
  kind: 'opened' | 'message' | 'turn' | 'bound' | 'status' | 'artifact' | 'reply' | 'metadata' | 'cancel';
  facts?: Record<string, unknown>;
  content?: {
    message?: Message;
    statusUpdate?: { status: TaskStatus };
    artifactUpdate?: { artifact: Artifact; append?: boolean; lastChunk?: boolean };
  };
  metadata?: unknown;
}

export interface Agent {
  name: string;
  title: string;
  description: string;
  version: string;
  default: boolean;
  url: string;
  card: string;
}

export interface AgentDetail extends Agent {
  skills: { id: string; name: string; description: string }[];
  inputModes: string[];
  outputModes: string[];
  streaming: boolean;
  push: boolean;
  restart: string;
  visibility: string;
  requiresCredential: boolean;
  tenant: string | null;
  hasWorkers: boolean;
  members: string[];
  limits: Record<string, number>;
}

export interface Delivery {
  task: string;
  config: string;
  endpoint: string | null;
  dialect: string | null;
  state: string;
  next: number;
  attempts: number;
  dueAt: string;
  delivered: number;
  deliveredAt: string | null;
  trouble: string | null;
  madeAt: string;
}

export interface Key {
  id: string;
  name: string;
  tenant: string;
  scopes: string[];
  prefix: string;
  state: string;
  createdAt: string;
  expiresAt: string | null;
  revokedAt: string | null;
}

export interface NewKey extends Key {
  /** Only in the answer to the request that made it. */
  secret: string;
}

export interface Decision {
  allowed: boolean;
  decidedBy: 'credential' | 'scopes' | 'policy' | 'nothing';
  scope: string | null;
  rule: number | null;
  effect: string | null;
  agent: string;
  reason: string | null;
}

export interface AuditPage {
  lines: Record<string, unknown>[];
  next: number | null;
}

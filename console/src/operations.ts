// Answers of the admin API about the server and its agents.

import type { Agent, AgentDetail, Health, Overview } from './api';

export interface OverviewNow extends Overview {
  streams: number | null;
  retrying: number | null;
  disk: { fileBytes: number; walBytes: number; freeBytes: number | null } | null;
}

export interface Sample {
  at: string;
  ms: number;
  calls: number;
  failedCalls: number;
  p50Ms: number | null;
  p99Ms: number | null;
  opened: number;
  settled: number;
  failed: number;
  streams: number;
  running: number;
  retrying: number;
}

export interface History {
  everyMs: number;
  samples: Sample[];
}

export interface EndedTurns {
  ended: number;
  failed: number;
  p50Ms: number | null;
  p99Ms: number | null;
}

export interface AgentLoad {
  health: 'ok' | 'unused' | 'busy' | 'unattended' | 'failing';
  running: number;
  slots: number;
  waiting: number;
  queue: number;
  refused: number;
  failedInARow: number;
  sinceStart: EndedTurns;
  recent: EndedTurns;
  turnTimeoutMs: number;
  attempts: number;
  outputBytes: number;
  workers: { waiting: number; online: { name: string; connections: number; turns: number }[] } | null;
}

export type LoadedAgent = Agent & { load: AgentLoad | null };
export type LoadedAgentDetail = AgentDetail & { load: AgentLoad | null };

export interface CardFinding {
  error: boolean;
  path: string;
  says: string;
}

export interface Cards {
  url: string;
  form: string;
  versions: { version: string; card: Record<string, unknown> | null; findings: CardFinding[] }[];
}

export interface Drift {
  remote: boolean;
  url: string | null;
  form: string | null;
  before: unknown;
  now: unknown;
  differences: { path: string; before: unknown; now: unknown }[];
  trouble: string | null;
}

export interface AgentTest {
  task: string | null;
  state: string | null;
  answer: string | null;
  tookMs: number;
  refused: string | null;
}

export interface UsedLimits {
  limits: { name: string; unit: 'bytes' | 'number'; used: number; most: number }[];
  rates: { name: string; perMinute: number; burst: number; counted: number; refused: number }[];
  places: { name: string; most: number; callers: number; highest: number; refused: number }[];
  daily: { most: number; refused: number; callers: { tenant: string; name: string; calls: number }[] } | null;
}

export interface Replica {
  no: number;
  own: boolean;
  alive: boolean;
  silentMs: number;
  leaseMs: number | null;
  about: Record<string, unknown> | null;
}

export interface StoreHealth extends Health {
  store: string;
  schema: number;
  starts: number;
  states: Record<string, number>;
  runningTurns: number;
  logRows: number;
  blobs: number;
  blobBytes: number;
  timers: number;
  pushActive: number;
  idempotencyKeys: number;
}

export interface ConfigValue {
  path: string;
  value: unknown;
  source: 'default' | 'file' | 'flag';
  line: number | null;
  flag: string | null;
  environment: string | null;
}

export interface EffectiveConfig {
  file: string | null;
  values: ConfigValue[];
}

export interface Reload {
  outcome: string;
  agents: { added: string[]; changed: string[]; removed: string[] };
  needsRestart: string[];
}

// Systems in the answers of the admin API.

export interface ListedSystem {
  name: string;
  title: string;
  description: string;
  nodes: number;
  approvals: number;
  agents: string[];
}

export interface SystemEdge {
  to: string;
  on: string;
  condition: unknown;
  back: boolean;
  /** In a run: how often it was taken. */
  taken: number | null;
}

export interface SystemVisit {
  visit: number;
  state: string;
  /** The id of the node's task. */
  child: string | null;
  attempts: number | null;
  began: string | null;
  ended: string | null;
  ms: number | null;
  reason: string | null;
  usage: Record<string, unknown> | null;
}

export interface SystemNode {
  node: string;
  agent: string;
  kind: string;
  agentTitle: string;
  tools: string[];
  entry: boolean;
  join: Record<string, unknown> | null;
  joins: string[];
  retries: number;
  approval: string | null;
  /** Only in a run. */
  state: string | null;
  visits: SystemVisit[];
  edges: SystemEdge[];
}

export interface SystemGraph {
  maxTurns: number | null;
  nodes: SystemNode[];
}

export interface SystemDetail {
  name: string;
  title: string;
  description: string;
  graph: SystemGraph;
}

export interface SystemRun {
  id: string;
  alias: string | null;
  tenant: string;
  owner: string;
  state: string;
  createdAt: string;
  updatedAt: string;
  /** Null while it goes on. */
  ms: number | null;
  attempts: number;
  input: string | null;
  message: string | null;
  waitsFor: { kind: string; node: string; asks: string } | null;
}

export interface SystemRunDetail {
  system: string;
  run: SystemRun;
  graph: SystemGraph;
}

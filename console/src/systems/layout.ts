// The places of nodes and edges, as dagre lays them out. It is loaded with the first graph.

import dagre from '@dagrejs/dagre';
import type { SystemEdge, SystemGraph, SystemNode } from './types';

export const WIDTH = 210;
export const HEIGHT = 92;

export interface PlacedNode {
  node: SystemNode;
  /** The left upper corner. */
  x: number;
  y: number;
}

export interface PlacedEdge {
  from: string;
  edge: SystemEdge;
  path: string;
  label: string;
  /** The middle of its label. */
  x: number;
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  nodes: PlacedNode[];
  edges: PlacedEdge[];
}

/** The words at an edge: when it is taken. */
export function words(edge: SystemEdge): string {
  const on = edge.on === 'completed' ? '' : `if ${edge.on}`;
  const condition = edge.condition === null ? '' : typeof edge.condition === 'string' ? edge.condition : JSON.stringify(edge.condition);
  return [on, condition].filter((part) => part !== '').join(', ');
}

export function short(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function lay(graph: SystemGraph): Layout {
  const plan = new dagre.graphlib.Graph({ multigraph: true });
  plan.setGraph({ rankdir: 'LR', nodesep: 28, ranksep: 60, marginx: 12, marginy: 12 });
  for (const node of graph.nodes) plan.setNode(node.node, { width: WIDTH, height: HEIGHT });
  const named: [string, SystemEdge, string][] = [];
  for (const node of graph.nodes) {
    for (const [at, edge] of node.edges.entries()) {
      const label = short(words(edge), 30);
      plan.setEdge(node.node, edge.to, { width: label.length * 7, height: label ? 18 : 0, labelpos: 'c' }, String(at));
      named.push([node.node, edge, String(at)]);
    }
  }
  dagre.layout(plan);
  const size = plan.graph() as { width?: number; height?: number };
  return {
    width: Math.ceil(size.width ?? 0),
    height: Math.ceil(size.height ?? 0),
    nodes: graph.nodes.map((node) => {
      const at = plan.node(node.node) as { x: number; y: number };
      return { node, x: at.x - WIDTH / 2, y: at.y - HEIGHT / 2 };
    }),
    edges: named.map(([from, edge, name]) => {
      const at = plan.edge({ v: from, w: edge.to, name }) as { points: { x: number; y: number }[]; x?: number; y?: number };
      const path = at.points.map(({ x, y }, index) => `${index === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join(' ');
      return { from, edge, path, label: short(words(edge), 30), x: at.x ?? 0, y: at.y ?? 0 };
    }),
  };
}

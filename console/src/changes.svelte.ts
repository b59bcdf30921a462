// Tells views that tasks have changed: one stream of the server for all views of the page.

import { address } from './session.svelte';

const AGAIN_MS = 5_000;
/** Between two readings of a view; slow readings are repeated less often, so that the page costs the server little. */
const PAUSE_MS = 200;
const PAUSE_SHARE = 40;
const LONGEST_PAUSE_MS = 5_000;

let isLive = $state(false);
let source: EventSource | null = null;
let timer = 0;
const listeners = new Set<() => void>();

export const changes = {
  /** The server tells of changes, so that a view need not ask. */
  get isLive(): boolean {
    return isLive;
  },
};

function open(): void {
  const stream = new EventSource(address('/events'));
  stream.onopen = () => (isLive = true);
  stream.onmessage = () => listeners.forEach((listener) => listener());
  stream.onerror = () => {
    isLive = false;
    // A refusal ends a stream for good; a lost connection is made again by the browser.
    if (stream.readyState === EventSource.CLOSED) timer = window.setTimeout(open, AGAIN_MS);
  };
  source = stream;
}

function close(): void {
  clearTimeout(timer);
  source?.close();
  source = null;
  isLive = false;
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}

function seen(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener('visibilitychange', () => done(), { once: true }));
}

/** Reads again after changes, until the component ends. Call it in the set-up of a component. */
export function readOnChange(read: () => Promise<void>): void {
  $effect(() => {
    let [isBusy, isWanted, isOver] = [false, false, false];
    async function run(): Promise<void> {
      isWanted = true;
      if (isBusy) return;
      isBusy = true;
      while (isWanted && !isOver) {
        await seen();
        isWanted = false;
        const began = performance.now();
        await read();
        await pause(Math.min(LONGEST_PAUSE_MS, Math.max(PAUSE_MS, PAUSE_SHARE * (performance.now() - began))));
      }
      isBusy = false;
    }
    const listener = (): void => void run();
    listeners.add(listener);
    if (listeners.size === 1) open();
    return () => {
      isOver = true;
      listeners.delete(listener);
      if (listeners.size === 0) close();
    };
  });
}

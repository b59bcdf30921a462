// The events of a task as they are committed: a cursor on its log that survives lost connections and restarts.

import type { LogEvent } from '../api';
import { address } from '../session.svelte';
import { settles } from '../task/events';

const AGAIN_MS = 2_000;

export class Log {
  events = $state.raw<LogEvent[]>([]);
  isLive = $state(false);
  /** The task is settled: nothing follows. */
  isOver = $state(false);
  #path: string;
  #source: EventSource | null = null;
  #waiting: LogEvent[] = [];
  #last = 0;
  #frame = 0;
  #timer = 0;

  /** `path` is the address of the log; it is followed until `close`. */
  constructor(path: string) {
    this.#path = path;
    this.#open();
  }

  close(): void {
    this.#source?.close();
    this.#source = null;
    this.isLive = false;
    clearTimeout(this.#timer);
  }

  #open(): void {
    const source = new EventSource(address(this.#path, { after: this.#last }));
    source.onopen = () => (this.isLive = true);
    source.onmessage = (message: MessageEvent<string>) => this.#take(JSON.parse(message.data) as LogEvent);
    source.onerror = () => {
      this.isLive = false;
      if (this.isOver) {
        // The server ends the stream of a settled task; the browser would ask for it again and again.
        this.close();
      } else if (source.readyState === EventSource.CLOSED) {
        // A refusal, as of a server that is starting, ends a source for good.
        this.#timer = window.setTimeout(() => this.#open(), AGAIN_MS);
      }
    };
    this.#source = source;
  }

  #take(event: LogEvent): void {
    // A browser that connects again may be told an event twice.
    if (event.seq <= this.#last) return;
    this.#last = event.seq;
    this.#waiting.push(event);
    if (settles(event)) this.isOver = true;
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.events = [...this.events, ...this.#waiting];
        this.#waiting = [];
      });
    }
  }
}

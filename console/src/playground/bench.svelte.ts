// The calls of one page: those that were made, and the task that they are about.

import { DraftError, type Action } from './draft';
import { understand, type Understood } from './read';
import { Run, type WireFrame } from './run.svelte';
import type { CallRequest } from './requests';
import type { Transport } from './transport';

export interface SeenEvent extends Understood {
  key: number;
  id: string;
  ms: number;
  /** A resumed stream begins with the task as of the last event. */
  isSnapshot: boolean;
}

const MOST_RUNS = 20;
const MOST_EVENTS = 2_000;

export class Bench {
  /** The newest first. */
  runs = $state.raw<Run[]>([]);
  events = $state.raw<SeenEvent[]>([]);
  /** The call whose answer is read now. */
  reading = $state.raw<Run | null>(null);
  taskId = $state('');
  contextId = $state('');
  state = $state('');
  lastEventId = $state('');
  refused = $state('');
  #known = new Set<string>();
  #waiting: SeenEvent[] = [];
  #frame = 0;
  #key = 0;

  /** Makes a call; `make` composes its request. Resolves when its answer has ended. */
  async perform(action: Action, make: () => CallRequest, transport: Transport): Promise<Run | null> {
    this.refused = '';
    let request: CallRequest;
    try {
      request = make();
    } catch (error) {
      if (!(error instanceof DraftError)) throw error;
      this.refused = error.message;
      return null;
    }
    const isReading = action === 'send' || action === 'stream' || action === 'subscribe';
    if (isReading) {
      this.reading?.drop();
      if (action !== 'subscribe') this.#begin();
    }
    const run: Run = new Run(request, (frame) => this.#take(frame, run));
    this.runs = [run, ...this.runs].slice(0, MOST_RUNS);
    if (isReading) this.reading = run;
    await run.perform(transport);
    if (run.failure) this.#show({ ...understand({}), title: 'Error', text: run.failure, isBad: true }, '', run.ms);
    if (this.reading === run) this.reading = null;
    return run;
  }

  close(): void {
    for (const run of this.runs) run.drop();
    if (this.#frame !== 0) cancelAnimationFrame(this.#frame);
  }

  /** Forgets the task before another one is opened. */
  #begin(): void {
    this.events = [];
    this.#waiting = [];
    this.#known.clear();
    [this.taskId, this.contextId, this.state, this.lastEventId] = ['', '', '', ''];
  }

  #take(frame: WireFrame, run: Run): void {
    if (run.isDropped()) return;
    const told = understand(frame.value);
    if (told.taskId) this.taskId = told.taskId;
    if (told.contextId) this.contextId = told.contextId;
    if (told.state) this.state = told.state;
    if (frame.id && run.request.isStream) this.lastEventId = frame.id;
    this.#show(told, frame.id, frame.ms);
  }

  #show(told: Understood, id: string, ms: number): void {
    const isSnapshot = told.isTask && id !== '' && this.#known.size > 0;
    if (id) this.#known.add(id);
    this.#key += 1;
    this.#waiting.push({ ...told, key: this.#key, id, ms, isSnapshot });
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.events = [...this.events, ...this.#waiting].slice(-MOST_EVENTS);
        this.#waiting = [];
      });
    }
  }
}

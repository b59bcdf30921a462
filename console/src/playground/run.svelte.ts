// One call: its request, and its answer as it comes.

import { said as problemSaid, Problem } from '../session.svelte';
import { messagesOf, BrokenOff, type Transport } from './transport';
import type { CallRequest } from './requests';

export interface WireFrame {
  ms: number;
  id: string;
  /** The first line that shows it. */
  label: string;
  text: string;
  /** Of an event: its content. */
  value: unknown;
}

export type RunState = 'waiting' | 'open' | 'ended' | 'dropped' | 'failed';

const MOST_FRAMES = 2_000;
const MOST_TEXT = 1 << 20;

function pretty(text: string): { text: string; value: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return { text: JSON.stringify(value, null, 2), value };
  } catch {
    return { text, value: undefined };
  }
}

export class Run {
  readonly request: CallRequest;
  readonly at = new Date();
  state = $state<RunState>('waiting');
  /** The body of a request of gRPC, once it is encoded. */
  encoded = $state.raw<Uint8Array<ArrayBuffer> | null>(null);
  status = $state(0);
  line = $state('');
  headers = $state.raw<[string, string][]>([]);
  frames = $state.raw<WireFrame[]>([]);
  /** Frames that are no longer shown. */
  forgotten = $state(0);
  body = $state('');
  /** Why there is no whole answer. */
  failure = $state('');
  ms = $state(0);
  #abort = new AbortController();
  #began = performance.now();
  #waiting: WireFrame[] = [];
  #frame = 0;
  #onEvent: (frame: WireFrame) => void;

  /** `onEvent` gets each event of the answer, and the whole answer that is no stream. */
  constructor(request: CallRequest, onEvent: (frame: WireFrame) => void) {
    this.request = request;
    this.#onEvent = onEvent;
  }

  /** Ends the connection; the task goes on. */
  drop(): void {
    if (this.state !== 'waiting' && this.state !== 'open') return;
    this.state = 'dropped';
    this.#abort.abort();
  }

  async perform(transport: Transport): Promise<void> {
    try {
      await this.#exchange(transport);
      if (this.state === 'open') this.state = 'ended';
    } catch (error) {
      // A dropped connection ends the reading with an error.
      if (this.isDropped()) return;
      this.state = 'failed';
      this.failure = error instanceof Problem ? problemSaid(error)
        : error instanceof BrokenOff ? `It broke off: ${error.message}.`
        : error instanceof TypeError ? 'The connection failed or broke off.'
        : String(error);
    } finally {
      this.#flush();
      this.ms = this.#elapsed();
    }
  }

  isDropped(): boolean {
    return this.state === 'dropped';
  }

  async #exchange(transport: Transport): Promise<void> {
    const { grpc } = this.request;
    const codec = grpc ? await import('./grpc') : null;
    if (grpc && codec) this.encoded = codec.encode(grpc);
    this.#began = performance.now();
    const exchange = await transport(this.request, this.encoded, this.#abort.signal);
    [this.state, this.status, this.line, this.headers] = ['open', exchange.status, exchange.line, exchange.headers];
    const header = (name: string): string => exchange.headers.find(([known]) => known.toLowerCase() === name)?.[1] ?? '';
    const type = header('content-type');
    if (grpc && codec && type.startsWith('application/grpc-web')) {
      const reader = new codec.FrameReader(grpc);
      let [event, after] = [header('a2a-event-id'), 0];
      this.failure = codec.statusError(exchange.headers);
      for await (const piece of exchange.pieces) {
        for (const { bytes, message, trailers } of reader.push(piece)) {
          if (trailers) {
            this.failure = codec.statusError(trailers);
            event = trailers.find(([name]) => name === 'last-event-id')?.[1] ?? event;
            this.#note({ id: '', label: `trailers, ${bytes} bytes`, text: trailers.map((pair) => pair.join(': ')).join('\n'), value: undefined });
          } else {
            // Only the first message has its id in a header: a client counts on from it.
            const id = event && (after === 0 ? event : `${event}+${after}`);
            after += 1;
            this.#note({ id, label: `message, ${bytes} bytes`, text: JSON.stringify(message, null, 2), value: message });
          }
        }
      }
      if (this.failure) this.state = 'failed';
    } else if (type.startsWith('text/event-stream')) {
      for await (const { id, event, data } of messagesOf(exchange.pieces)) {
        this.#note({ id: id ?? '', label: event ? `event: ${event}` : 'event', ...pretty(data) });
      }
    } else {
      await this.#whole(exchange.pieces);
    }
  }

  async #whole(pieces: AsyncIterable<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    let text = '';
    for await (const piece of pieces) text += decoder.decode(piece, { stream: true });
    const shown = pretty(text);
    this.body = shown.text.length > MOST_TEXT ? `${shown.text.slice(0, MOST_TEXT)}\n…` : shown.text;
    if (shown.value !== undefined) this.#onEvent({ ms: this.#elapsed(), id: '', label: '', ...shown });
    else if (this.status >= 400 || this.status === 0) this.failure = this.status === 0 ? 'The answer is a redirect, which is not followed.' : `Status ${this.status}`;
    if (this.failure) this.state = 'failed';
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#began);
  }

  #note(frame: Omit<WireFrame, 'ms'>): void {
    // The rest of a piece is not shown after the connection was dropped.
    if (this.isDropped()) return;
    const timed = { ms: this.#elapsed(), ...frame };
    this.#waiting.push(timed);
    if (timed.value !== undefined) this.#onEvent(timed);
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    if (this.#frame !== 0) cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (this.#waiting.length === 0) return;
    const all = [...this.frames, ...this.#waiting];
    this.#waiting = [];
    this.forgotten += Math.max(0, all.length - MOST_FRAMES);
    this.frames = all.slice(-MOST_FRAMES);
  }
}

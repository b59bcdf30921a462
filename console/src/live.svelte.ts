// Values of the server that are read again while a page is looked at.

import { Problem, said } from './session.svelte';

const EVERY_MS = 2_000;

/** A value of the server, and why there is none. */
export class Live<T> {
  value = $state.raw<T | null>(null);
  error = $state('');
  /** The status of the refusal, for views that treat some apart. */
  status = $state(0);
  #read: (signal: AbortSignal) => Promise<T>;
  #abort = new AbortController();
  #timer = 0;

  /** Call it in the set-up of a component: it ends with the component. */
  constructor(read: (signal: AbortSignal) => Promise<T>, everyMs: () => number = () => EVERY_MS) {
    this.#read = read;
    $effect(() => {
      // What `read` depends on is followed: another address is another value.
      const abort = new AbortController();
      this.#abort = abort;
      void this.#once(abort, everyMs());
      return () => {
        abort.abort();
        clearTimeout(this.#timer);
      };
    });
  }

  /** Reads the value now, after a change. */
  async again(): Promise<void> {
    try {
      this.value = await this.#read(this.#abort.signal);
      this.error = '';
    } catch (error) {
      if (!this.#abort.signal.aborted) this.error = said(error);
    }
  }

  async #once(abort: AbortController, everyMs: number): Promise<void> {
    try {
      const value = await this.#read(abort.signal);
      if (abort.signal.aborted) return;
      this.value = value;
      this.error = '';
      this.status = 0;
    } catch (error) {
      if (abort.signal.aborted) return;
      this.status = error instanceof Problem ? error.status : 0;
      this.error = said(error);
    }
    if (everyMs === 0) return;
    this.#timer = window.setTimeout(() => void this.#next(abort, everyMs), everyMs);
  }

  async #next(abort: AbortController, everyMs: number): Promise<void> {
    // A page that nobody sees asks for nothing.
    if (document.hidden) {
      await new Promise<void>((seen) => document.addEventListener('visibilitychange', () => seen(), { once: true, signal: abort.signal }));
    }
    if (!abort.signal.aborted) await this.#once(abort, everyMs);
  }
}

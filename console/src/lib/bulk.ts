// One change of many things: a few at a time, with the results counted.

import { said } from '../session.svelte';

const AT_ONCE = 4;

export interface Results {
  done: number;
  /** How often each reason was given. */
  refused: [string, number][];
}

export async function each<T>(things: readonly T[], change: (thing: T) => Promise<unknown>, progress: (count: number) => void): Promise<Results> {
  const refused = new Map<string, number>();
  let [next, done, over] = [0, 0, 0];
  const work = async (): Promise<void> => {
    while (next < things.length) {
      const thing = things[next++] as T;
      try {
        await change(thing);
        done++;
      } catch (error) {
        const reason = said(error);
        refused.set(reason, (refused.get(reason) ?? 0) + 1);
      }
      progress(++over);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { done, refused: [...refused] };
}

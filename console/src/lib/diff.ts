// The differences of two texts by lines.

export interface Line {
  left: string | null;
  right: string | null;
  same: boolean;
}

/** Texts with more lines than this are compared line by line at the same place. */
const MOST_CELLS = 4_000_000;

/** The lines of both texts side by side; a line that only one text has stands beside another such line or none. */
export function sideBySide(left: string, right: string): Line[] {
  const [a, b] = [left.split('\n'), right.split('\n')];
  const pairs = a.length * b.length <= MOST_CELLS ? common(a, b) : same(a, b);
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  for (const [atA, atB] of [...pairs, [a.length, b.length] as const]) {
    while (i < atA || j < atB) {
      lines.push({ left: i < atA ? (a[i++] ?? null) : null, right: j < atB ? (b[j++] ?? null) : null, same: false });
    }
    if (i < a.length && j < b.length) lines.push({ left: a[i++] ?? null, right: b[j++] ?? null, same: true });
  }
  return lines;
}

function same(a: string[], b: string[]): [number, number][] {
  return a.flatMap((line, i): [number, number][] => (line === b[i] ? [[i, i]] : []));
}

/** The positions of a longest common subsequence. */
function common(a: string[], b: string[]): [number, number][] {
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i++;
    else j++;
  }
  return pairs;
}

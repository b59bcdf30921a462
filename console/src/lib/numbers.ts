// Numbers as people read them.

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(number: number): string {
  let [value, unit] = [number, 0];
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit] ?? ''}`;
}

/** A time in milliseconds that may be small. */
export function millis(ms: number | null): string {
  if (ms === null) return 'none';
  if (ms >= 10_000) return `${(ms / 1_000).toFixed(0)} s`;
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${ms >= 10 ? ms.toFixed(0) : ms.toFixed(2)} ms`;
}

export function rate(perSecond: number): string {
  return perSecond >= 10 ? perSecond.toFixed(0) : perSecond >= 0.1 ? perSecond.toFixed(1) : perSecond === 0 ? '0' : perSecond.toFixed(2);
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return 'none';
  const share = (100 * part) / whole;
  return `${share > 0 && share < 10 ? share.toFixed(1) : share.toFixed(0)} %`;
}

// Times as people read them.

const UNITS: [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** A duration in its two largest units at most. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const at = UNITS.findIndex(([, unit]) => ms >= unit);
  const [name, unit] = UNITS[at] ?? ['s', 1_000];
  const whole = Math.floor(ms / unit);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((ms - whole * unit) / next[1]) : 0;
  return next && rest > 0 && whole < 10 ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
}

export function age(time: string, now: number): string {
  const then = Date.parse(time);
  return Number.isNaN(then) ? '' : duration(now - then);
}

/** The local time of day with milliseconds, and the date where it is not today's. */
export function clock(time: string): string {
  const then = new Date(time);
  if (Number.isNaN(then.getTime())) return time;
  const pad = (number: number, width = 2): string => String(number).padStart(width, '0');
  const day = `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())}`;
  const at = `${pad(then.getHours())}:${pad(then.getMinutes())}:${pad(then.getSeconds())}.${pad(then.getMilliseconds(), 3)}`;
  return then.toDateString() === new Date().toDateString() ? at : `${day} ${at}`;
}

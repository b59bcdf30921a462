// A long list of tasks, newest first, of which the first page is read again and again.

import type { ListedTask, TaskPage } from '../api';

export interface Rows {
  tasks: ListedTask[];
  /** Where the list goes on after the last row. */
  next: string | null;
}

/** The list with its first page as it is now; `limit` is the length of a full page. */
export function merged(rows: Rows, page: TaskPage, limit: number): Rows {
  if (!page.next) return { tasks: page.tasks, next: null };
  const last = page.tasks.at(-1);
  // A search that found nothing yet says where it goes on.
  if (!last) return rows.tasks.length > 0 ? rows : { tasks: [], next: page.next };
  const known = new Set(rows.tasks.map((task) => task.id));
  const isGap = page.tasks.length >= limit && !page.tasks.some((task) => known.has(task.id));
  // Ids grow with time.
  const rest = isGap ? [] : rows.tasks.filter((task) => task.id < last.id);
  return rest.length === 0 ? { tasks: page.tasks, next: page.next } : { tasks: [...page.tasks, ...rest], next: rows.next };
}

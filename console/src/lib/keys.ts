// The keyboard: `/` for the search, `j` and `k` in lists, `g` and a letter for views, `?` for help.

import { go, href } from '../router.svelte';

export const JUMPS: [string, string, string[]][] = [
  ['o', 'Overview', []],
  ['t', 'Tasks', ['tasks']],
  ['i', 'Inbox', ['inbox']],
  ['a', 'Agents', ['agents']],
  ['d', 'Deliveries', ['deliveries']],
];

const JUMP_MS = 1_500;
let jumping = 0;

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'));
}

/** Moves the focus in the list of the view. Its members are marked with `data-item`. */
function move(by: number): void {
  const items = [...document.querySelectorAll<HTMLElement>('[data-item]')];
  const at = items.findIndex((item) => item === document.activeElement);
  const next = items[at === -1 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

export function onKey(event: KeyboardEvent, help: () => void): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
  if (document.querySelector('dialog[open]')) return;
  if (jumping && event.timeStamp - jumping < JUMP_MS) {
    jumping = 0;
    const jump = JUMPS.find(([letter]) => letter === event.key);
    if (jump) {
      event.preventDefault();
      go(href(jump[2]));
      return;
    }
  }
  jumping = 0;
  switch (event.key) {
    case '/':
      event.preventDefault();
      document.querySelector<HTMLInputElement>('#search')?.focus();
      break;
    case 'j':
      move(1);
      break;
    case 'k':
      move(-1);
      break;
    case 'g':
      jumping = event.timeStamp;
      break;
    case '?':
      help();
      break;
    default:
  }
}

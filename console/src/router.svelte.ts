// Every view has an address below /console. The address is the only place where filters and tabs are kept.

const BASE = '/console';

export interface Place {
  /** The segments of the path below /console, decoded. */
  path: string[];
  query: URLSearchParams;
}

function here(): Place {
  const rest = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : '';
  const path = rest.split('/').filter((segment) => segment !== '').map(decoded);
  return { path, query: new URLSearchParams(location.search) };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

let place = $state.raw<Place>(here());

export const router = {
  get place(): Place {
    return place;
  },
};

/** The address of a view: its path below /console, and its query without empty members. */
export function href(path: readonly string[], query: Record<string, string | undefined> = {}): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const search = new URLSearchParams(pairs).toString();
  const text = [BASE, ...path.map(encodeURIComponent)].join('/');
  return (path.length === 0 ? `${BASE}/` : text) + (search ? `?${search}` : '');
}

export function go(address: string, replace = false): void {
  if (replace) history.replaceState(null, '', address);
  else history.pushState(null, '', address);
  place = here();
  if (!replace) window.scrollTo(0, 0);
}

/** Sets members of the query of this view, without a new entry in the history. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const query = Object.fromEntries(place.query);
  go(href(place.path, { ...query, ...changes }), true);
}

/** Follows links within the console without loading the page again. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link || link.target || link.origin !== location.origin || link.hasAttribute('download')) return;
  if (link.pathname !== BASE && !link.pathname.startsWith(`${BASE}/`)) return;
  event.preventDefault();
  go(link.pathname + link.search);
}

window.addEventListener('popstate', () => {
  place = here();
});

// The views of the console, in the order of the menu. A view is loaded when it is opened for the first time.

import type { Component } from 'svelte';
import type { Operation } from './api';
import { may, session } from './session.svelte';

/** The page of one thing gets the segments of its path: `/console/tasks/ID/wire` is `name` ID and `tab` wire. */
export type Page = Component<{ name: string; tab: string }>;
type Load = () => Promise<{ default: Page }>;

export interface View {
  title: string;
  /** The first segment of its path. */
  path: string;
  /** Without this operation the view is not in the menu. */
  needs: Operation;
  /** A product has it: the view is there only where the server lists this page. */
  product?: string;
  page: Load;
  /** The page of one thing, where the view has one. */
  one?: Load;
}

/** Loads once, so that the same page is the same promise. */
function once(load: () => Promise<{ default: unknown }>): Load {
  let loaded: Promise<{ default: Page }> | undefined;
  return () => {
    loaded ??= (load() as Promise<{ default: Page }>).catch((error: unknown) => {
      loaded = undefined;
      throw error;
    });
    return loaded;
  };
}

export const VIEWS: View[] = [
  { title: 'Overview', path: '', needs: 'get_overview', page: once(() => import('./views/Overview.svelte')) },
  {
    title: 'Tasks',
    path: 'tasks',
    needs: 'get_tasks',
    page: once(() => import('./views/Tasks.svelte')),
    one: once(() => import('./views/Task.svelte')),
  },
  { title: 'Inbox', path: 'inbox', needs: 'get_tasks', page: once(() => import('./views/Inbox.svelte')) },
  {
    title: 'Agents',
    path: 'agents',
    needs: 'get_agents',
    page: once(() => import('./views/Agents.svelte')),
    one: once(() => import('./views/Agent.svelte')),
  },
  {
    title: 'Systems',
    path: 'systems',
    needs: 'get_systems',
    product: 'systems',
    page: once(() => import('./systems/Systems.svelte')),
    one: once(() => import('./systems/System.svelte')),
  },
  {
    title: 'Market',
    path: 'market',
    needs: 'get_ledger',
    product: 'market',
    page: once(() => import('./market/Market.svelte')),
    one: once(() => import('./market/Market.svelte')),
  },
  {
    title: 'Shop',
    path: 'shop',
    needs: 'get_orders',
    product: 'shop',
    page: once(() => import('./shop/Shop.svelte')),
    one: once(() => import('./shop/Shop.svelte')),
  },
  { title: 'Playground', path: 'playground', needs: 'get_agents', page: once(() => import('./views/Playground.svelte')) },
  { title: 'Deliveries', path: 'deliveries', needs: 'get_deliveries', page: once(() => import('./views/Deliveries.svelte')) },
  { title: 'Store', path: 'store', needs: 'get_replicas', page: once(() => import('./views/Store.svelte')) },
  { title: 'Limits', path: 'limits', needs: 'get_limits', page: once(() => import('./views/Limits.svelte')) },
  { title: 'Keys', path: 'keys', needs: 'get_keys', page: once(() => import('./views/Keys.svelte')) },
  { title: 'Policy', path: 'policy', needs: 'post_policy_check', page: once(() => import('./views/Policy.svelte')) },
  { title: 'Config', path: 'config', needs: 'get_config', page: once(() => import('./views/Config.svelte')) },
  { title: 'Audit', path: 'audit', needs: 'get_audit', page: once(() => import('./views/Audit.svelte')) },
];

/** Whether this server has the view. */
export function isServed(view: View): boolean {
  return !view.product || (session.current?.pages.includes(view.product) ?? false);
}

/** Whether the view is in the menu of the session. */
export function isOffered(view: View): boolean {
  return isServed(view) && may(view.needs);
}

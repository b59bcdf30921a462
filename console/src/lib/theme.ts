// Light, dark, or as the browser prefers. The choice stays in this browser.

export const THEMES = ['auto', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

const KEY = 'rialto.theme';

export function stored(): Theme {
  return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? 'auto';
}

export function use(theme: Theme): void {
  localStorage.setItem(KEY, theme);
  if (theme === 'auto') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.dataset['theme'] = theme;
}

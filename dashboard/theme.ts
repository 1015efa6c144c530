import { useLayoutEffect, useState } from 'preact/hooks';

/** Light or dark as the system says, until the user chooses here. */
type Theme = 'light' | 'dark';

const stored = 'tollgate.theme';
const changed = 'tollgate-theme';
const system = matchMedia('(prefers-color-scheme: dark)');

function chosen(): Theme | null {
  const theme = localStorage.getItem(stored);
  return theme === 'light' || theme === 'dark' ? theme : null;
}

function current(): Theme {
  return chosen() ?? (system.matches ? 'dark' : 'light');
}

function show(): void {
  document.documentElement.dataset.theme = current();
  dispatchEvent(new Event(changed));
}

export function startTheme(): void {
  show();
  system.addEventListener('change', show);
}

export function useTheme(): { readonly theme: Theme; toggle(): void } {
  const [theme, setTheme] = useState(current);
  useLayoutEffect(() => {
    const follow = () => setTheme(current());
    addEventListener(changed, follow);
    return () => removeEventListener(changed, follow);
  }, []);
  return {
    theme,
    toggle() {
      localStorage.setItem(stored, theme === 'dark' ? 'light' : 'dark');
      show();
    },
  };
}

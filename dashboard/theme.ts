import { useLayoutEffect, useState } from 'preact/hooks';

/** The theme follows the system's setting until the user chooses one. */
type Theme = 'light' | 'dark';

const storageItem = 'tollgate.theme';
const themeChanged = 'tollgate-theme';
const systemDark = matchMedia('(prefers-color-scheme: dark)');

function chosenTheme(): Theme | null {
  const theme = localStorage.getItem(storageItem);
  return theme === 'light' || theme === 'dark' ? theme : null;
}

function currentTheme(): Theme {
  return chosenTheme() ?? (systemDark.matches ? 'dark' : 'light');
}

function applyTheme(): void {
  document.documentElement.dataset.theme = currentTheme();
  dispatchEvent(new Event(themeChanged));
}

export function startTheme(): void {
  applyTheme();
  systemDark.addEventListener('change', applyTheme);
}

export function useTheme(): { readonly theme: Theme; toggle(): void } {
  const [theme, setTheme] = useState(currentTheme);
  useLayoutEffect(() => {
    const update = () => setTheme(currentTheme());
    addEventListener(themeChanged, update);
    return () => removeEventListener(themeChanged, update);
  }, []);
  return {
    theme,
    toggle() {
      localStorage.setItem(storageItem, theme === 'dark' ? 'light' : 'dark');
      applyTheme();
    },
  };
}

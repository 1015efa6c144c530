import { useLayoutEffect } from 'preact/hooks';

/** The tab's title, also in the browser's history: an open dialog comes before the page. */
const shown = { dialog: '', page: '' };

export function useTitle(of: keyof typeof shown, title: string): void {
  useLayoutEffect(() => {
    name(of, title);
    return () => name(of, '');
  }, [title]);
}

function name(of: keyof typeof shown, title: string): void {
  shown[of] = title;
  const parts = [shown.dialog, shown.page, 'Tollgate'];
  document.title = parts.filter((part) => part !== '').join(' · ');
}

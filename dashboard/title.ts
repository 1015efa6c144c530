import { useLayoutEffect } from 'preact/hooks';

/** The parts of the tab's title. An open dialog comes before the page. */
const titles = { dialog: '', page: '' };

export function useTitle(part: keyof typeof titles, title: string): void {
  useLayoutEffect(() => {
    setTitle(part, title);
    return () => setTitle(part, '');
  }, [title]);
}

function setTitle(part: keyof typeof titles, title: string): void {
  titles[part] = title;
  const parts = [titles.dialog, titles.page, 'Tollgate'];
  document.title = parts.filter((text) => text !== '').join(' · ');
}

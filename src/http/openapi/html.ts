const special: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Any value as text that stays text, between tags and inside a quoted attribute. */
export function escapeHtml(value: unknown): string {
  return String(value ?? '').replace(/[&<>"']/g, (character) => special[character] ?? '');
}

/** The same with `code spans` as our own sentences write them. */
export function sentenceHtml(value: unknown): string {
  return escapeHtml(value).replace(/`([^`]+)`/g, '<code>$1</code>');
}

/** Tells browsers that a page of ours may use the named sources and nothing else. */
export function pageHeaders(...sources: readonly string[]): Readonly<Record<string, string>> {
  const closed = ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"];
  return {
    'content-security-policy': ["default-src 'none'", ...sources, ...closed].join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
}

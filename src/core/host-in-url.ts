/** A host as it stands in a URL: IPv6 in brackets, or its colons would be taken for the port's. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** A URL's host as it stands anywhere else, without brackets. */
export function hostIn({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** The port of a URL, also where it is left out. */
export function portIn({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** Whether a URL leads to this machine itself. */
export function isLoopback(url: string): boolean {
  return /^https?:\/\/(127\.|localhost[:/]|\[::1\])/i.test(url);
}

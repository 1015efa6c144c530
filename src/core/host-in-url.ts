/** As it stands in a URL: IPv6 in brackets, or its colons would be taken for the port's. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Whether a URL leads to this machine itself. */
export function isLoopback(url: string): boolean {
  return /^https?:\/\/(127\.|localhost[:/]|\[::1\])/i.test(url);
}

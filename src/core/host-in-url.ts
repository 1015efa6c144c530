/** As it stands in a URL: IPv6 in brackets, or its colons would be taken for the port's. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** As it stands in an address: IPv6 goes in brackets, its colons would be taken for the port's. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

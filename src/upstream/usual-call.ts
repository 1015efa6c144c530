import { isLoopback } from '../core/host-in-url.ts';

/** What every call says to a server that is configured, and not named by a client. */
export const usualHeaders: Readonly<Record<string, string>> = {
  // Compressed answers would have to be unpacked before they could be bounded.
  'accept-encoding': 'identity',
  'user-agent': 'tollgate',
};

/** How such a call is made by the runtime. Some of these options its types do not know. */
export function usualOptions(url: string): BunFetchRequestInit {
  const options = {
    // Our own deadlines apply; the runtime's would cut image edits short.
    timeout: false,
    // A redirect would carry the credential to wherever the answer points.
    redirect: 'manual',
    decompress: false,
    // An environment variable must not be able to switch certificate checks off.
    ...(url.startsWith('https:') ? { tls: { rejectUnauthorized: true } } : {}),
    // A proxy set in the environment is for the world outside, not for this machine.
    ...(isLoopback(url) ? { proxy: false } : {}),
  };
  return options as BunFetchRequestInit;
}

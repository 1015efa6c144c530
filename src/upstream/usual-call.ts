import { isLoopback } from '../core/host-in-url.ts';

/** The headers of every call to a server that the operator configured. */
export const usualHeaders: Readonly<Record<string, string>> = {
  // Compressed answers would have to be unpacked before they could be bounded.
  'accept-encoding': 'identity',
  'user-agent': 'tollgate',
};

/** The options of such a call by the runtime. Its types do not know some of them. */
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

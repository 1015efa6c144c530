import { failureCode } from '../../core/failure-code.ts';
import { type GuardedTarget, pinnedOptions } from './guarded-target.ts';

/** Failures before a byte was sent, so that the next address may be tried even with a body. */
export const connectFailures: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]);

/** Tries the checked addresses of a target in turn; rejects as the last one of them did. */
export async function callPinned(
  target: GuardedTarget,
  init: BunFetchRequestInit & { readonly headers: Headers },
  trustedCertificates?: string,
): Promise<Response> {
  init.headers.set('host', target.url.host);
  let failure: unknown;
  for (const pinnedUrl of target.pinnedUrls) {
    try {
      return await fetch(pinnedUrl, {
        ...init,
        ...pinnedOptions(target.url, trustedCertificates),
      });
    } catch (thrown) {
      failure = thrown;
      if (!connectFailures.has(failureCode(thrown) ?? '')) break;
    }
  }
  throw failure;
}

/** The other side has shown a certificate that is expired, for another name or signed by nobody. */
export function isUntrusted(code: string): boolean {
  return /CERT|VERIFY|ISSUER/.test(code);
}

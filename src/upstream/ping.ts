import type { Provider } from '../config/config.ts';
import { callConfiguredServer, type ServerCall } from '../core/call-configured-server.ts';
import { failureCode } from '../core/errors.ts';
import { dialects } from '../dialects/registry.ts';
import { isUntrusted } from './guard/pinned-call.ts';
import { InvalidKeyError } from './keys/authorizer.ts';
import { queryProvider } from './provider-client.ts';

/** The result of a ping. */
export type PingResult =
  | { readonly kind: 'answered'; readonly status: number; readonly ms: number }
  | { readonly kind: 'silent' }
  | { readonly kind: 'untrusted'; readonly code: string }
  | { readonly kind: 'unreached'; readonly code: string }
  /** The message is one sentence and doesn't reveal the key. */
  | { readonly kind: 'unusable key'; readonly message: string };

/** Returns whether a ping also checks the key, and not only that the server responds. */
export function hasFreeCall({ dialect }: Provider): boolean {
  return dialects[dialect].modelListPath !== null;
}

/** Calls a free endpoint of a provider, with its key if the dialect has a model list. */
export function pingProvider(provider: Provider, timeoutMs: number): Promise<PingResult> {
  const path = dialects[provider.dialect].modelListPath;
  if (path === null) return pingServer(keylessCall(provider.baseUrl), timeoutMs);
  return ping((signal) => queryProvider(provider, path, signal), timeoutMs);
}

/** Returns a call without a key. Any response shows that the server is up. */
export function keylessCall(url: string): ServerCall {
  return { method: 'GET', url, headers: {} };
}

export function pingServer(call: ServerCall, timeoutMs: number): Promise<PingResult> {
  return ping((signal) => callConfiguredServer(call, signal), timeoutMs);
}

async function ping(
  call: (signal: AbortSignal) => Promise<Response>,
  timeoutMs: number,
): Promise<PingResult> {
  const signal = AbortSignal.timeout(timeoutMs);
  const startedAt = performance.now();
  try {
    const { status, body } = await call(signal);
    const ms = Math.round(performance.now() - startedAt);
    await body?.cancel();
    return { kind: 'answered', status, ms };
  } catch (error) {
    if (signal.aborted) return { kind: 'silent' };
    if (error instanceof InvalidKeyError) return { kind: 'unusable key', message: error.message };
    const code = failureCode(error) || 'unknown reason';
    return { kind: isUntrusted(code) ? 'untrusted' : 'unreached', code };
  }
}

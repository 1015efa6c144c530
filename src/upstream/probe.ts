import type { Provider } from '../config/config.ts';
import type { DialectName } from '../config/provider-schema.ts';
import { failureCode } from '../core/failure-code.ts';
import { ask } from './client.ts';
import { isUntrusted } from './guard/pinned-call.ts';
import { UnusableKey } from './keys/unusable-key.ts';
import { callOperatorServer, type OperatorCall } from './operator-call.ts';

/** Where a dialect lists its models: free of charge, and only for those who have a good key. */
const modelLists: Readonly<Record<DialectName, string | undefined>> = {
  openai: '/models',
  'openai-responses': '/models',
  anthropic: '/models',
  gemini: '/models',
  siliconflow: '/models',
  // These list their models at another host, or under another version, than they serve them.
  bedrock: undefined,
  cohere: undefined,
};

/** The outcome of a free call. */
export type Probed =
  | { readonly kind: 'answered'; readonly status: number; readonly ms: number }
  | { readonly kind: 'silent' }
  | { readonly kind: 'untrusted'; readonly code: string }
  | { readonly kind: 'unreached'; readonly code: string }
  /** The message is one sentence, which does not reveal the key. */
  | { readonly kind: 'unusable key'; readonly message: string };

/** Whether the answer to a probe tells more than that a server is there. */
export function hasFreeCall({ dialect }: Provider): boolean {
  return modelLists[dialect] !== undefined;
}

/** Asks a provider for something free, with its key where the key decides the answer. */
export function probeProvider(provider: Provider, patienceMs: number): Promise<Probed> {
  const path = modelLists[provider.dialect];
  if (path === undefined) return probeServer(bareCall(provider.baseUrl), patienceMs);
  return probed((signal) => ask(provider, path, signal), patienceMs);
}

/** Any answer shows that a server is there; no key is shown. */
export function bareCall(url: string): OperatorCall {
  return { method: 'GET', url, headers: {} };
}

export function probeServer(call: OperatorCall, patienceMs: number): Promise<Probed> {
  return probed((signal) => callOperatorServer(call, signal), patienceMs);
}

async function probed(
  call: (signal: AbortSignal) => Promise<Response>,
  patienceMs: number,
): Promise<Probed> {
  const signal = AbortSignal.timeout(patienceMs);
  const startedAt = performance.now();
  try {
    const { status, body } = await call(signal);
    const ms = Math.round(performance.now() - startedAt);
    await body?.cancel();
    return { kind: 'answered', status, ms };
  } catch (thrown) {
    if (signal.aborted) return { kind: 'silent' };
    if (thrown instanceof UnusableKey) return { kind: 'unusable key', message: thrown.message };
    const code = failureCode(thrown) || 'unknown reason';
    return { kind: isUntrusted(code) ? 'untrusted' : 'unreached', code };
  }
}

import type { Provider } from '../config/config.ts';
import { callConfiguredServer, type ServerCall } from '../core/call-configured-server.ts';
import { failureCode } from '../core/errors.ts';
import { fieldsOf, parseJson } from '../core/json.ts';
import { knownCredentials } from '../core/known-credentials.ts';
import { readBounded } from '../core/read-bounded.ts';
import { pluralize } from '../core/text.ts';
import { readFailure } from '../dialects/failure.ts';
import { dialects } from '../dialects/registry.ts';
import { isUntrusted } from './guard/pinned-call.ts';
import { InvalidKeyError } from './keys/authorizer.ts';
import { queryProvider, secretsOf } from './provider-client.ts';

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

/** The result of a test, for the operator who configured the provider. */
export interface ProviderTestResult {
  readonly ok: boolean;
  readonly call: 'model_list' | 'reachability';
  readonly status: number | null;
  readonly durationMs: number;
  /** How many models the provider lists. */
  readonly models: number | null;
  readonly message: string;
}

/** A long model list has about 1 MB. */
const listBytesMax = 8 * 1024 * 1024;

/** Sends a free call with the provider's key, and reads the provider's own message if it fails. */
export async function testProvider(
  provider: Provider,
  timeoutMs: number,
): Promise<ProviderTestResult> {
  const { modelListPath } = dialects[provider.dialect];
  const signal = AbortSignal.timeout(timeoutMs);
  const startedAt = performance.now();
  const { host } = new URL(provider.baseUrl);
  const result = (
    ok: boolean,
    status: number | null,
    message: string,
    models: number | null = null,
  ): ProviderTestResult => ({
    ...{ ok, status, message, models },
    call: modelListPath === null ? 'reachability' : 'model_list',
    durationMs: Math.round(performance.now() - startedAt),
  });
  try {
    const response = await (modelListPath === null
      ? callConfiguredServer(keylessCall(provider.baseUrl), signal)
      : queryProvider(provider, modelListPath, signal));
    const { status, headers } = response;
    const text = await readBounded(response, listBytesMax);
    if (modelListPath === null) return result(true, status, `${host} responds.`);
    if (!response.ok) {
      const { message } = readFailure(status, text ?? '', headers, Date.now());
      return result(false, status, withoutSecrets(message, provider));
    }
    const models = modelCountIn(parseJson(text ?? ''));
    if (models === undefined) return result(false, status, `${host} didn't send a model list.`);
    return result(true, status, `${host} lists ${pluralize(models, 'model')}.`, models);
  } catch (error) {
    if (signal.aborted) {
      return result(false, null, `${host} didn't respond within ${timeoutMs / 1000} s.`);
    }
    if (error instanceof InvalidKeyError) return result(false, null, error.message);
    const code = failureCode(error) || 'unknown reason';
    const isCertificate = isUntrusted(code);
    const reason = isCertificate ? "has a certificate that isn't trusted here" : "can't be reached";
    return result(false, null, `${host} ${reason} (${code}).`);
  }
}

/** Vendors call the list `data` or `models`. */
function modelCountIn(body: unknown): number | undefined {
  const { data, models } = fieldsOf(body);
  const list = Array.isArray(body) ? body : (data ?? models);
  return Array.isArray(list) ? list.length : undefined;
}

function withoutSecrets(message: string, provider: Provider): string {
  const hidden = [...secretsOf(provider), ...knownCredentials.findIn(message)];
  return hidden.reduce((text, secret) => text.replaceAll(secret, () => '[key]'), message);
}

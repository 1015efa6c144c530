import type { Provider, ProviderKey } from '../config/config.ts';
import { callConfiguredServer } from '../core/call-configured-server.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import { failureCode, invalidRequest } from '../core/errors.ts';
import { fieldsOf, parseJson } from '../core/json.ts';
import { knownCredentials } from '../core/known-credentials.ts';
import { readBounded } from '../core/read-bounded.ts';
import { pluralize } from '../core/text.ts';
import { readFailure } from '../dialects/failure.ts';
import { readChatRequest } from '../dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../dialects/openai-chat/client-request.ts';
import { dialects } from '../dialects/registry.ts';
import type { Offer } from '../route/catalog.ts';
import type { AttemptContext } from './attempt.ts';
import { attemptChat } from './chat-attempt.ts';
import { publicOnly } from './guard/address-policy.ts';
import { isUntrusted } from './guard/pinned-call.ts';
import { InvalidKeyError } from './keys/authorizer.ts';
import { keylessCall } from './ping.ts';
import { queryProvider, secretsOf } from './provider-client.ts';

// Tests a provider for the operator who configured it. Nothing is recorded or charged.

/** Longer than a provider takes to list its models. */
const timeoutMs = 15_000;
/** A long model list has about 1 MB. */
const listBytesMax = 8 * 1024 * 1024;

interface TestOptions {
  readonly call?: 'free' | 'one_token';
  /** The ID of the model for one token. */
  readonly model?: string;
  /** The name of one of several keys. By default, all enabled keys are tested. */
  readonly key?: string;
}

interface Outcome {
  readonly ok: boolean;
  readonly status: number | null;
  readonly duration_ms: number;
  readonly message: string;
}

interface CallResult extends Outcome {
  readonly call: 'model_list' | 'reachability' | 'one_token';
  /** How many models the provider lists. */
  readonly models: number | null;
  /** The model that generated the token. */
  readonly model: string | null;
}

export interface ProviderTestResult extends CallResult {
  /** Empty unless the provider has several keys. */
  readonly keys: readonly (Outcome & { readonly name: string })[];
}

/**
 * Sends a call to a provider with each of its keys, and reads the provider's own message if it
 * fails. `chatOffers` are the offers of its chat models. Throws 400.
 */
export async function testProvider(
  provider: Provider,
  chatOffers: readonly Offer[],
  options: TestOptions = {},
): Promise<ProviderTestResult> {
  const offer = offerFor(provider, chatOffers, options);
  const test = (at: Provider) => (offer ? sendToken({ ...offer, provider: at }) : sendFree(at));
  if (!provider.keys) {
    if (options.key === undefined) return { ...(await test(provider)), keys: [] };
    throw invalidRequest('key must be left out, because the provider has only one key.', 'key');
  }
  const results = await Promise.all(
    keysToTest(provider.keys, options).map(async ({ name, provider: withKey }) => ({
      ...{ name, result: await test(withKey) },
    })),
  );
  return summaryOf(results);
}

function keysToTest(
  keys: readonly ProviderKey[],
  { key: requested }: TestOptions,
): readonly ProviderKey[] {
  const isUsed = ({ isDisabled, until }: ProviderKey) =>
    !isDisabled && (until === null || until > Date.now());
  if (requested === undefined) return keys.filter(isUsed);
  const found = keys.filter(({ name }) => name === requested);
  if (found.length > 0) return found;
  const names = keys.map(({ name }) => name).join(', ');
  throw invalidRequest(`key must be the name of a key of the provider: ${names}.`, 'key');
}

interface KeyResult {
  readonly name: string;
  readonly result: CallResult;
}

function summaryOf(results: readonly KeyResult[]): ProviderTestResult {
  const failed = results.filter(({ result }) => !result.ok);
  const [first = results[0]] = failed;
  if (!first) throw new Error('A provider with several keys has an enabled one.');
  const { name, result } = first;
  const { length } = results;
  const counted = `${failed.length} of ${pluralize(length, 'key')}`;
  const failure = `${counted} failed. ${name}: ${result.message}`;
  const success = length === 1 ? result.message : `${result.message} All ${length} keys work.`;
  return {
    ...result,
    message: failed.length > 0 ? failure : success,
    duration_ms: Math.max(...results.map((one) => one.result.duration_ms)),
    keys: results.map((one) => {
      const { ok, status, duration_ms, message } = one.result;
      return { name: one.name, ok, status, duration_ms, message };
    }),
  };
}

/** Returns the offer to send one token to, or undefined for a free call. Throws 400. */
function offerFor(
  { name }: Provider,
  chatOffers: readonly Offer[],
  { call = 'free', model }: TestOptions,
): Offer | undefined {
  if (call === 'free') {
    if (model === undefined) return undefined;
    throw invalidRequest('model can only be set if call is one_token.', 'model');
  }
  const canChat = chatOffers.filter(({ dialect }) => dialects[dialect].chat !== null);
  // Some reasoning models reject a limit of one token.
  const preferred =
    canChat.find((offer) => !offer.model.features.includes('reasoning')) ?? canChat[0];
  const found = model === undefined ? preferred : canChat.find((one) => one.model.id === model);
  if (found) return found;
  if (model !== undefined) {
    throw invalidRequest(`model must be a chat model that ${name} serves.`, 'model');
  }
  throw invalidRequest(`call can't be one_token, because ${name} serves no chat model.`, 'call');
}

type Report = (ok: boolean, status: number | null, message: string, models?: number) => CallResult;

/** Starts the clock of a call. Returns a function that writes its result. */
function startCall(call: CallResult['call'], model: string | null): Report {
  const startedAt = performance.now();
  return (ok, status, message, models) => ({
    ...{ ok, call, status, message, model },
    models: models ?? null,
    duration_ms: Math.round(performance.now() - startedAt),
  });
}

async function sendFree(provider: Provider): Promise<CallResult> {
  const { modelListPath } = dialects[provider.dialect];
  const signal = AbortSignal.timeout(timeoutMs);
  const { host } = new URL(provider.baseUrl);
  const report = startCall(modelListPath === null ? 'reachability' : 'model_list', null);
  try {
    const response = await (modelListPath === null
      ? callConfiguredServer(keylessCall(provider.baseUrl), signal)
      : queryProvider(provider, modelListPath, signal));
    const { status, headers } = response;
    const text = await readBounded(response, listBytesMax);
    if (modelListPath === null) return report(true, status, `${host} responds.`);
    if (!response.ok) {
      const { message } = readFailure(status, text ?? '', headers, Date.now());
      return report(false, status, withoutSecrets(message, provider));
    }
    const models = modelCountIn(parseJson(text ?? ''));
    if (models === undefined) return report(false, status, `${host} didn't send a model list.`);
    return report(true, status, `${host} lists ${pluralize(models, 'model')}.`, models);
  } catch (error) {
    if (signal.aborted) return report(false, null, silent(host));
    if (error instanceof InvalidKeyError) return report(false, null, error.message);
    const code = failureCode(error) || 'unknown reason';
    const isCertificate = isUntrusted(code);
    const reason = isCertificate ? "has a certificate that isn't trusted here" : "can't be reached";
    return report(false, null, `${host} ${reason} (${code}).`);
  }
}

const silent = (host: string) => `${host} didn't respond within ${timeoutMs / 1000} s.`;

const deadlines = new DeadlineWatcher();

/** Requests one token of output, as the shortest chat of a client would. */
async function sendToken(offer: Offer): Promise<CallResult> {
  const { provider, model } = offer;
  const { host } = new URL(provider.baseUrl);
  const body = {
    model: model.id,
    messages: [{ role: 'user', content: 'Hi' }],
    max_tokens: 1,
  };
  const text = JSON.stringify(body);
  const request = readChatRequest(body, { text, bytes: Buffer.from(text) });
  const signal = AbortSignal.timeout(timeoutMs);
  const report = startCall('one_token', model.id);
  const context = contextOf(offer, signal);
  const result = await attemptChat(openAiClientRequest(request, true), offer, context);
  if (result.kind === 'reply') return report(true, 200, `${host} generated a token.`);
  if (signal.aborted || result.kind !== 'failed') return report(false, null, silent(host));
  const { status, message } = result.failure;
  return report(false, status, withoutSecrets(message, provider));
}

/** A context for an attempt that belongs to no tenant. */
function contextOf(offer: Offer, clientSignal: AbortSignal): AttemptContext {
  const { model, provider } = offer;
  const unused = () => Promise.reject(new Error('The test of a provider fetches nothing.'));
  return {
    identity: { id: 'test', model: model.id, created: 0, provider: provider.name },
    tenantId: '',
    outputTokensMax: null,
    clientSignal,
    deadlines,
    openBy: performance.now() + timeoutMs,
    fetchGuarded: unused,
    inlineImages: unused,
    reportDropped: () => undefined,
    reserveMemory: () => undefined,
    releaseMemory: () => undefined,
    extendHold: async () => false,
    spendableCredits: async () => 0,
    checkAddress: unused,
    addressPolicy: publicOnly,
  };
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

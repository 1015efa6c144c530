import { type TSchema, Type } from 'typebox';
import type { Config, WebSearch } from './config.ts';
import { configFileSchema } from './schema.ts';

/** An option of the file that can also be set while the gateway runs. */
interface Setting {
  readonly path: readonly string[];
  /** The schema of an object with the field `value`. */
  readonly schema: object;
  /** Returns the value in effect. */
  read(config: Config): unknown;
}

const sections: Readonly<Record<string, TSchema & { properties?: Record<string, TSchema> }>> =
  configFileSchema.properties;

function setting(name: string, read: Setting['read']): [string, Setting] {
  const path = name.split('.');
  const [section = '', field] = path;
  const rule = field === undefined ? sections[section] : sections[section]?.properties?.[field];
  const properties = { value: rule ?? Type.Never() };
  // The options of the file are optional, but a value is required here.
  const schema = { type: 'object', properties, required: ['value'], additionalProperties: false };
  return [name, { path, schema, read }];
}

/**
 * The options that may change at any time. Those that only a restart can change are set in the
 * file, because otherwise processes would differ until all of them have restarted.
 */
export const settings: ReadonlyMap<string, Setting> = new Map([
  setting('server.public_url', ({ server }) => server.publicUrl),
  setting('private_addresses', ({ privateAddresses }) => privateAddresses),
  setting('demo', ({ demo }) => demo),
  setting('ambiguous_model_names', (config) => config.ambiguousModelNames),
  setting('chat_error_codes', ({ chatErrorCodes }) => chatErrorCodes),
  setting('stickiness', ({ stickiness }) => stickiness),
  setting('limits.requests_per_minute', ({ limits }) => limits.requestsPerMinute),
  setting('limits.tokens_per_minute', ({ limits }) => limits.tokensPerMinute),
  setting('limits.concurrent_requests', ({ limits }) => limits.concurrentRequests),
  setting('limits.reads_per_minute', ({ limits }) => limits.readsPerMinute),
  setting('limits.body_bytes', ({ limits }) => limits.bodyBytes),
  setting('limits.body_memory_bytes', ({ limits }) => limits.bodyMemoryBytes),
  setting('cache.mode', ({ cache }) => cache.mode),
  setting('billing.byok_fee_basis_points', ({ billing }) => billing.byokFeeBasisPoints),
  setting('billing.default_plan', ({ billing }) => billing.defaultPlan),
  setting('billing.abandoned', ({ billing }) => billing.abandoned),
  setting('tools.web_search', ({ webSearch }) => webSearch && webSearchDocument(webSearch)),
]);

function webSearchDocument(search: WebSearch) {
  return {
    engine: search.engine,
    url: search.url,
    ...(search.apiKey && { api_key: search.apiKey.toString() }),
    usd_per_search: search.usdPerSearch,
    calls_max: search.callsMax,
    results_max: search.resultsMax,
  };
}

import { type Static, Type } from 'typebox';
import { searchResultsMax } from '../core/bounds.ts';
import { cacheModes } from '../core/caller.ts';
import { integer, nullable, oneOf } from '../core/schema.ts';
import { aliasNamePattern, aliasSchema } from './alias-schema.ts';
import { modelSchema, stickiness } from './model-schema.ts';
import { planNamePattern, planSchema, priceSchema } from './price-schema.ts';
import { providerSchema } from './provider-schema.ts';
import { httpUrl, secretText, strictObject, usd } from './schema-fields.ts';

/** The schema of `tollgate.yaml`. All fields are optional; load.ts has the defaults. */
export const configFileSchema = strictObject({
  server: strictObject({
    host: Type.String({ minLength: 1 }),
    port: integer(0, 65_535),
    admin_host: Type.String({ minLength: 1 }),
    admin_port: nullable(integer(1, 65_535)),
    public_url: httpUrl('https://gateway.example.com'),
    drain_seconds: integer(0, 86_400),
    database_wait_seconds: integer(0, 86_400),
    trusted_proxies: Type.Array(Type.String()),
  }),
  data_dir: Type.String({ minLength: 1 }),
  database: Type.String({
    pattern: '^(sqlite:.+|postgres(ql)?://.+)$',
    expected: 'sqlite:<file> or postgres://…',
    hidden: true,
  }),
  redis: nullable(
    Type.String({ pattern: '^rediss?://', expected: 'redis://… or null', hidden: true }),
  ),
  objects: Type.String({
    pattern: '^(file:.+|s3://.+)$',
    expected: 'file:<folder> or s3://bucket/prefix?endpoint=…&region=…',
    hidden: true,
  }),
  private_addresses: Type.Array(Type.String()),
  catalogue: oneOf('builtin', 'none'),
  demo: Type.Union([Type.Literal('auto'), Type.Boolean()], {
    expected: '"auto", true, or false',
  }),
  ambiguous_model_names: oneOf('first', 'reject'),
  chat_error_codes: oneOf('status', 'name'),
  stickiness,
  credits_per_usd: integer(1, 1_000_000_000),
  limits: strictObject({
    requests_per_minute: integer(1),
    tokens_per_minute: nullable(integer(1)),
    concurrent_requests: integer(1),
    reads_per_minute: integer(1),
    body_bytes: integer(1024, 1_073_741_824),
    body_memory_bytes: nullable(integer(0)),
  }),
  cache: strictObject({
    mode: oneOf(...cacheModes),
    ttl_seconds: integer(1, 31_536_000),
    max_bytes: integer(0),
  }),
  billing: strictObject({
    byok_fee_basis_points: integer(0, 100_000),
    default_plan: nullable(Type.String({ minLength: 1 })),
    durability: oneOf('journal', 'fsync'),
    abandoned: oneOf('input', 'free'),
  }),
  logs: strictObject({
    // At least a week: after a crash, a gateway compares its journal with rows of the log to see
    // which requests are in the ledger, so rows must be kept until it starts again.
    keep_days: nullable(integer(7, 36_500)),
    requests: Type.Boolean(),
  }),
  audit: strictObject({ keep_days: nullable(integer(1, 36_500)) }),
  tools: strictObject({
    web_search: nullable(
      strictObject({
        engine: oneOf('searxng', 'brave', 'tavily'),
        url: httpUrl('http://127.0.0.1:8888'),
        api_key: nullable(secretText()),
        usd_per_search: usd(),
        calls_max: integer(1, 20),
        results_max: integer(1, searchResultsMax),
      }),
    ),
  }),
  providers: Type.Record(Type.String(), providerSchema, {
    expected: 'a section with the names of providers, such as "openai: { api_key: … }"',
  }),
  models: Type.Array(modelSchema),
  aliases: Type.Record(Type.String({ pattern: aliasNamePattern }), aliasSchema, {
    expected: 'a section with names without spaces, such as "fast: { models: […] }"',
  }),
  prices: Type.Array(priceSchema),
  plans: Type.Record(Type.String({ pattern: planNamePattern }), planSchema, {
    expected: 'a section with the names of plans, such as "pro: { factor_basis_points: 12000 }"',
  }),
});

export type ConfigFile = Static<typeof configFileSchema>;

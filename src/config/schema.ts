import { type Static, Type } from 'typebox';
import { searchResultsMax } from '../core/bounds.ts';
import { cacheModes } from '../core/caller.ts';
import { nullable, oneOf, wholeNumber } from '../core/schema-builders.ts';
import { modelSchema } from './model-schema.ts';
import { providerSchema } from './provider-schema.ts';
import { closed, httpAddress, secretText, usd } from './schema-parts.ts';

/** The schema of `tollgate.yaml`. Everything is optional; load.ts has the defaults. */

export const configFileSchema = closed({
  server: closed({
    host: Type.String({ minLength: 1 }),
    port: wholeNumber(0, 65_535),
    public_url: httpAddress('https://gateway.example.com'),
    drain_seconds: wholeNumber(0, 86_400),
    database_wait_seconds: wholeNumber(0, 86_400),
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
    expected: '"auto", true or false',
  }),
  credits_per_usd: wholeNumber(1, 1_000_000_000),
  limits: closed({
    requests_per_minute: wholeNumber(1),
    tokens_per_minute: nullable(wholeNumber(1)),
    concurrent_requests: wholeNumber(1),
    body_bytes: wholeNumber(1024, 1_073_741_824),
  }),
  cache: closed({
    mode: oneOf(...cacheModes),
    ttl_seconds: wholeNumber(1, 31_536_000),
    max_bytes: wholeNumber(0),
  }),
  billing: closed({
    byok_fee_basis_points: wholeNumber(0, 100_000),
    durability: oneOf('journal', 'fsync'),
  }),
  logs: closed({
    // At least a week: when a gateway replays the journal of a crash, rows of the log show what was
    // booked already, so they must outlive the time until that gateway starts again.
    keep_days: nullable(wholeNumber(7, 36_500)),
    requests: Type.Boolean(),
  }),
  tools: closed({
    web_search: nullable(
      closed({
        engine: oneOf('searxng', 'brave', 'tavily'),
        url: httpAddress('http://127.0.0.1:8888'),
        api_key: nullable(secretText()),
        usd_per_search: usd(),
        calls_max: wholeNumber(1, 20),
        results_max: wholeNumber(1, searchResultsMax),
      }),
    ),
  }),
  providers: Type.Record(Type.String(), providerSchema, {
    expected: 'a section with the names of providers, such as "openai: { api_key: … }"',
  }),
  models: Type.Array(modelSchema),
});

export type ConfigFile = Static<typeof configFileSchema>;

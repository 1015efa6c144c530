import { Type } from 'typebox';
import { allowListMax } from '../core/bounds.ts';
import { cacheModes, limitResets, scopes } from '../core/caller.ts';
import { integer, nullable, oneOf, optional } from '../core/schema.ts';
import {
  count,
  countField,
  credits,
  data,
  deletedSchema,
  lineField,
  nameField,
  record,
  type Shape,
  text,
  time,
} from './fields.ts';
import { openRouterDetails, openRouterKey } from './openrouter.ts';
import { offsetQuery } from './query.ts';
import type { RouteDoc } from './route-doc.ts';

// The requests and responses of API key management.

export const keysPerPage = 100;

/** A week. Long enough to roll out a new secret, short enough that the old one isn't forgotten. */
export const overlapSecondsMax = 604_800;

/** Operators can define aliases of any form. */
const modelPattern = Type.String({
  pattern: '^(?:\\*|[^\\s*]{1,199}\\*?)$',
  expected:
    'a model alias such as "openai/gpt-4o", or a prefix followed by "*", such as "openai/*"',
});

const settings = {
  limit: optional(countField(0)),
  limit_reset: optional(oneOf(...limitResets)),
  expires_at: optional(
    Type.String({
      pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d{1,9})?)?(?:Z|\\+00:00)$',
      expected: 'a UTC time such as "2030-01-31T00:00:00Z"',
    }),
  ),
  models: optional(Type.Array(modelPattern, { minItems: 1, maxItems: allowListMax })),
  scopes: optional(Type.Array(oneOf(...scopes), { minItems: 1, maxItems: scopes.length })),
  requests_per_minute: optional(countField(1)),
  cache: optional(oneOf(...cacheModes)),
};

export const newKeySchema = record('NewKey', {
  name: nameField(),
  ...settings,
  management: optional(Type.Boolean()),
});

export const keyChangeSchema = record('KeyChange', {
  name: Type.Optional(nameField()),
  disabled: Type.Optional(Type.Boolean()),
  ...settings,
});
export type KeyChangeRequest = Shape<typeof keyChangeSchema>;

export const rotationSchema = record('Rotation', {
  overlap_seconds: optional(integer(0, overlapSecondsMax)),
});

const keyFields = {
  id: text(),
  label: text('The first and last characters of the secret.'),
  name: text(),
  disabled: Type.Boolean(),
  limit: nullable(credits()),
  limit_remaining: nullable(credits()),
  limit_reset: nullable(oneOf(...limitResets)),
  limit_resets_at: nullable(time()),
  usage: credits(),
  usage_daily: credits(),
  usage_weekly: credits(),
  usage_monthly: credits(),
  models: nullable(Type.Array(Type.String())),
  scopes: nullable(Type.Array(oneOf(...scopes))),
  requests_per_minute: nullable(count()),
  cache: nullable(oneOf(...cacheModes)),
  created_at: time(),
  updated_at: time(),
  expires_at: nullable(time()),
  last_used_at: nullable(time()),
};
const keySchema = record('Key', keyFields);
export type KeyObject = Shape<typeof keySchema>;

const openRouterKeySchema = record('OpenRouterKey', { ...keyFields, ...openRouterKey });
export type OpenRouterKeyObject = Shape<typeof openRouterKeySchema>;

const issuedKeySchema = record('IssuedKey', {
  data: keySchema,
  key: text('The secret. It is shown only once.'),
});
export type IssuedKeyObject = Shape<typeof issuedKeySchema>;

const id = { id: 'The key ID, `key_…`.' };

export const keyDocs = {
  create: {
    summary: 'Create a key',
    body: newKeySchema,
    example: { name: 'my app', limit: 1_000_000, limit_reset: 'monthly' },
    responses: { 201: issuedKeySchema },
  },
  list: {
    summary: 'List keys',
    details: `Returns up to ${keysPerPage} keys, oldest first.`,
    query: {
      ...offsetQuery,
      include_disabled: Type.Boolean({ default: false, description: 'Include disabled keys.' }),
      search: Type.String({
        ...lineField(0, 200),
        description: 'Words from the name or label, or the start of the ID.',
      }),
    },
    responses: { 200: data(Type.Array(keySchema)) },
  },
  show: { summary: 'Get a key', path: id, responses: { 200: data(keySchema) } },
  change: {
    summary: 'Update a key',
    details: 'Fields that you leave out stay unchanged; `null` removes a restriction.',
    path: id,
    body: keyChangeSchema,
    bodyOptional: true,
    example: { limit: 2_000_000 },
    responses: { 200: data(keySchema) },
  },
  delete: { summary: 'Delete a key', path: id, responses: { 200: deletedSchema } },
  rotate: {
    summary: 'Rotate the secret of a key',
    details:
      'The previous secret keeps working for `overlap_seconds`, or until the next rotation if ' +
      'that is sooner: only one previous secret works at a time.',
    path: id,
    body: rotationSchema,
    bodyOptional: true,
    example: { overlap_seconds: 3600 },
    responses: { 200: issuedKeySchema },
  },
  current: {
    summary: 'Get the calling key',
    details: openRouterDetails,
    responses: { 200: data(Type.Union([keySchema, openRouterKeySchema])) },
  },
} satisfies Record<string, RouteDoc>;

const tenantId = { id: 'The ID of the tenant.' };
const tenantKeyId = { ...tenantId, key_id: id.id };

/** The same routes for operators, below a tenant. */
export const tenantKeyDocs = {
  create: { ...keyDocs.create, summary: 'Create a key for a tenant', path: tenantId },
  list: { ...keyDocs.list, summary: 'List the keys of a tenant', path: tenantId },
  show: { ...keyDocs.show, summary: 'Get a key of a tenant', path: tenantKeyId },
  change: { ...keyDocs.change, summary: 'Update a key of a tenant', path: tenantKeyId },
  delete: { ...keyDocs.delete, summary: 'Delete a key of a tenant', path: tenantKeyId },
  rotate: {
    ...keyDocs.rotate,
    summary: "Rotate the secret of a tenant's key",
    path: tenantKeyId,
  },
} satisfies Record<string, RouteDoc>;

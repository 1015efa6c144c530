import { Type } from 'typebox';
import { credentialSchema } from '../auth/management/byok.ts';
import { lineField } from '../auth/management/field-schemas.ts';
import { keyChangeSchema, newKeySchema, rotationSchema } from '../auth/management/key-input.ts';
import { byokModes, cacheModes, limitResets, scopes } from '../core/caller.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { offsetQuery } from './query.ts';
import {
  count,
  credits,
  data,
  deleted,
  inlineRecord,
  named,
  type RouteDoc,
  record,
  text,
  time,
} from './route-doc.ts';

/** What a tenant's manager does: keys, and accounts at providers. */

const key = record('Key', {
  id: text(),
  label: text('How the secret begins and ends.'),
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
});

export const issuedKey = record('IssuedKey', {
  data: key,
  key: text('The secret. It is shown now and never again.'),
});

const credential = record('Credential', {
  provider: text(),
  label: text('How the key begins and ends.'),
  mode: oneOf(...byokModes),
  base_url: nullable(text()),
  created_at: time(),
  updated_at: time(),
});

const id = { id: 'The id of a key, `key_…`.' };
const provider = { provider: 'The name of a provider.' };

export const newKeyBody = named('NewKey', newKeySchema);

export const keyDocs = {
  create: {
    summary: 'Create a key',
    body: newKeyBody,
    example: { name: 'my app', limit: 1_000_000, limit_reset: 'monthly' },
    answers: { 201: issuedKey },
  },
  list: {
    summary: 'List keys',
    query: {
      ...offsetQuery,
      include_disabled: Type.Boolean({ default: false, description: 'Disabled ones too.' }),
      search: Type.String({
        ...lineField(0, 200),
        description: 'Words of the name or label, or the beginning of the id.',
      }),
    },
    answers: { 200: data(Type.Array(key)) },
  },
  show: { summary: 'Look at a key', path: id, answers: { 200: data(key) } },
  change: {
    summary: 'Change a key',
    details: 'What is left out stays; `null` takes a limit away.',
    path: id,
    body: named('KeyChange', keyChangeSchema),
    example: { limit: 2_000_000 },
    answers: { 200: data(key) },
  },
  delete: { summary: 'Delete a key', path: id, answers: { 200: deleted } },
  rotate: {
    summary: 'Give a key a new secret',
    details:
      'The one before it works for `overlap_seconds` more, but not beyond the next rotation: one ' +
      'old secret works at a time.',
    path: id,
    body: named('Rotation', rotationSchema),
    example: { overlap_seconds: 3600 },
    answers: { 200: issuedKey },
  },
  current: { summary: 'Look at the calling key', answers: { 200: data(key) } },
} satisfies Record<string, RouteDoc>;

export const byokDocs = {
  list: {
    summary: 'List own accounts at providers',
    answers: {
      200: inlineRecord({
        data: Type.Array(credential),
        providers: Type.Array(inlineRecord({ name: text(), takes_base_url: Type.Boolean() })),
      }),
    },
  },
  show: { summary: 'Look at an own account', path: provider, answers: { 200: data(credential) } },
  set: {
    summary: 'Bring an own account',
    details: 'Requests to its provider then go by it, and only a platform fee is charged.',
    path: provider,
    body: named('NewCredential', credentialSchema),
    example: { api_key: 'sk-of-your-own', mode: 'byok_first' },
    answers: { 200: data(credential) },
  },
  delete: { summary: 'Forget an own account', path: provider, answers: { 200: deleted } },
} satisfies Record<string, RouteDoc>;

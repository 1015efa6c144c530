import { Type } from 'typebox';
import { byokModes } from '../core/caller.ts';
import { providerKeyLengthMax } from '../core/provider-key.ts';
import { nullable, oneOf, optional } from '../core/schema.ts';
import { data, deletedSchema, inlineRecord, record, type Shape, text, time } from './fields.ts';
import type { RouteDoc } from './route-doc.ts';

// Tenants' own provider keys (BYOK).

export const newCredentialSchema = record('NewCredential', {
  // `hidden` values are never quoted in an error.
  api_key: Type.String({
    minLength: 1,
    maxLength: providerKeyLengthMax,
    expected: `a string of 1 to ${providerKeyLengthMax} characters`,
    description: 'An API key, an AWS key pair, or the JSON of a Google service account.',
    hidden: true,
  }),
  mode: optional(oneOf(...byokModes)),
  base_url: optional(
    Type.String({
      pattern: '^https?://[^\\s]+$',
      expected: 'an http(s) URL such as "https://api.example.com/v1"',
      hidden: true,
    }),
  ),
});

const credentialSchema = record('Credential', {
  provider: text(),
  label: text('The last characters of the key.'),
  mode: oneOf(...byokModes),
  base_url: nullable(text()),
  created_at: time(),
  updated_at: time(),
});
export type CredentialObject = Shape<typeof credentialSchema>;

const credentialListSchema = inlineRecord({
  data: Type.Array(credentialSchema),
  providers: Type.Array(inlineRecord({ name: text(), takes_base_url: Type.Boolean() })),
});
export type CredentialListObject = Shape<typeof credentialListSchema>;

const provider = { provider: 'The name of a provider.' };

export const byokDocs = {
  list: { summary: 'List your provider keys', responses: { 200: credentialListSchema } },
  show: {
    summary: 'Get a provider key',
    path: provider,
    responses: { 200: data(credentialSchema) },
  },
  set: {
    summary: 'Save a provider key',
    details: 'Requests to this provider then use your key, and only a platform fee is charged.',
    path: provider,
    body: newCredentialSchema,
    example: { api_key: 'sk-of-your-own', mode: 'byok_first' },
    responses: { 200: data(credentialSchema) },
  },
  delete: { summary: 'Delete a provider key', path: provider, responses: { 200: deletedSchema } },
} satisfies Record<string, RouteDoc>;

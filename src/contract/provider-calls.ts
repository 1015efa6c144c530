import { Type } from 'typebox';
import { secretText } from '../config/schema-fields.ts';
import { integer, nullable, oneOf } from '../core/schema.ts';
import { preconditions, providerResource } from './config.ts';
import { count, data, inlineRecord, named, record, type Shape, text } from './fields.ts';
import { overlapSecondsMax } from './keys.ts';
import type { RouteDoc } from './route-doc.ts';

// What operators can do with a provider besides configuring it: test it, and rotate its keys.

const name = { name: 'The name of the provider.' };

export const providerTestSchema = named(
  'ProviderTest',
  Type.Object(
    {
      call: Type.Optional({
        ...oneOf('free', 'one_token'),
        description:
          '`free` (default): a call that costs nothing, such as a request for the list of models. ' +
          '`one_token`: a chat with one token of output, which the provider may charge to you.',
      }),
      model: Type.Optional(
        text('The ID of the model for `one_token`. By default, a chat model of the provider.'),
      ),
      key: Type.Optional(
        text('The name of the key to test. By default, all enabled keys are tested.'),
      ),
    },
    { additionalProperties: false },
  ),
);
export type ProviderTestBody = Shape<typeof providerTestSchema>;

const outcome = {
  ok: Type.Boolean(),
  status: nullable(count('The HTTP status that the provider returned.')),
  duration_ms: count(),
  message: text("One sentence. After a failure, it is the provider's own, if it sent one."),
};

const providerTestResult = record('ProviderTestResult', {
  ...outcome,
  call: oneOf('model_list', 'reachability', 'one_token'),
  models: nullable(count('How many models the provider lists.')),
  model: nullable(text('The model that generated the token.')),
  keys: Type.Array(inlineRecord({ name: text(), ...outcome }), {
    description: 'The result of each key, if the provider has several.',
  }),
});
export type ProviderTestObject = Shape<typeof providerTestResult>;

export const keyRotationSchema = named(
  'ProviderKeyRotation',
  Type.Object(
    {
      api_key: { ...secretText(), description: 'The new key.' },
      key: Type.Optional(text('The name of the key to replace, if the provider has several.')),
      overlap_seconds: Type.Optional(integer(0, overlapSecondsMax)),
    },
    { additionalProperties: false },
  ),
);
export type KeyRotationBody = Shape<typeof keyRotationSchema>;

export const providerDocs = {
  test: {
    summary: 'Test a provider',
    details:
      'Sends a call to the provider with each of its keys. The answer is 200 even if the test ' +
      'fails. Nothing is charged to a tenant.',
    path: name,
    body: providerTestSchema,
    bodyOptional: true,
    example: { call: 'one_token' },
    responses: { 200: data(providerTestResult) },
  },
  rotate: {
    summary: "Rotate a provider's key",
    details:
      'New requests use the new key. For `overlap_seconds` (a day by default), requests that the ' +
      'provider rejects with it are sent again with the previous one, which is then deleted. Only ' +
      `one previous key is kept. ${preconditions}`,
    path: name,
    body: keyRotationSchema,
    example: { api_key: 'sk-the-new-one', overlap_seconds: 3600 },
    responses: { 200: data(providerResource) },
  },
} satisfies Record<string, RouteDoc>;

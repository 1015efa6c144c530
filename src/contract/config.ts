import { type TSchema, Type } from 'typebox';
import { aliasSchema } from '../config/alias-schema.ts';
import { modelSchema, pricingSchema } from '../config/model-schema.ts';
import { planSchema, priceSchema } from '../config/price-schema.ts';
import { providerSchema } from '../config/provider-schema.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { providerStateFields } from './admin.ts';
import type { Shape } from './fields.ts';
import { count, data, deletedSchema, inlineRecord, named, record, text, time } from './fields.ts';
import type { RouteDoc } from './route-doc.ts';

// Objects of the configuration, which operators create while the gateway runs.

/** Describes a document as it is returned: with labels in place of secrets. */
function withLabels(schema: object): TSchema {
  const entries = Object.entries(schema).filter(([name]) => name !== 'hidden' && name !== 'title');
  const described = entries.map(([name, value]) => [name, labelsIn(value)] as const);
  return Object.fromEntries(described) as unknown as TSchema;
}

function labelsIn(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(labelsIn);
  return typeof value === 'object' && value !== null ? withLabels(value) : value;
}

const ownership = {
  owner: Type.Union([Type.Literal('built_in'), Type.Literal('file'), Type.Literal('store')], {
    description:
      '`store` for objects that can be changed here. An object in the store replaces a built-in ' +
      'one with its name. Objects of the file are changed in the file.',
  }),
  source: nullable(text('The configuration file, for an object that is set there.')),
  version: nullable(count('The version for `If-Match`, for an object in the store.')),
  created_at: nullable(time()),
  created_by: nullable(text()),
  updated_at: nullable(time()),
  updated_by: nullable(text()),
};

const ownershipSchema = inlineRecord(ownership);
export type OwnershipObject = Shape<typeof ownershipSchema>;

export const providerResource = record('Provider', {
  ...providerStateFields,
  ...ownership,
  config: withLabels(providerSchema),
});

const modelResource = record('ModelObject', {
  name: text('The ID of the model.'),
  live: Type.Boolean({ description: 'Whether every tenant can call the model.' }),
  ...ownership,
  config: withLabels(modelSchema),
});

const aliasResource = record('Alias', {
  name: text(),
  ...ownership,
  config: withLabels(aliasSchema),
});

const priceResource = record('Price', {
  name: text(),
  model: text(),
  provider: text(),
  upstream_model: text(
    "The provider's name for the model. A price of several endpoints is repeated.",
  ),
  state: oneOf('past', 'in_force', 'scheduled'),
  from: nullable(time('Null for the prices before the first change.')),
  until: nullable(time('The start of the next price.')),
  pricing: withLabels(pricingSchema),
  price_source: nullable(
    inlineRecord({
      name: text('Where the price was read.'),
      date: nullable(text('The day or month. Null if it is unknown.')),
      dated: oneOf('price', 'catalog'),
      age_days: nullable(count('Days since the date, or since the first day of its month.')),
    }),
  ),
  ...ownership,
});
export type PriceObject = Shape<typeof priceResource>;

const planResource = record('Plan', {
  name: text(),
  ...ownership,
  config: withLabels(planSchema),
});

const settingResource = record('Setting', {
  name: text(),
  ...ownership,
  value: Type.Unknown({ description: 'The value in effect.' }),
});

/** What a change can require of the version that it is based on. */
export const preconditions =
  'With `If-Match: "<version>"`, the request changes only this version, and with ' +
  '`If-None-Match: *` it only creates. Otherwise, the answer is 412. The change is checked ' +
  'together with the rest of the configuration, and applies to new requests on every process ' +
  'within a second. 409 means that the configuration file sets the object.';
const secretRule =
  'Secrets are returned as labels. A secret that is omitted, or sent as its label, stays as it is.';

export const restoreSchema = Type.Object(
  {
    state: Type.Optional(
      Type.Enum(['before', 'after'], {
        description: 'The state before the change (default) or after it.',
      }),
    ),
  },
  { additionalProperties: false },
);

const anyResource = Type.Union([
  providerResource,
  modelResource,
  aliasResource,
  priceResource,
  planResource,
  settingResource,
]);

interface Documented {
  readonly noun: string;
  readonly plural?: string;
  /** The name of the body's schema. */
  readonly title: string;
  readonly path: string;
  readonly body: TSchema;
  readonly example: unknown;
  readonly change: unknown;
  readonly resource: TSchema;
  readonly details?: string;
}

function docsOf({
  noun,
  plural = `${noun}s`,
  title,
  path,
  body,
  example,
  change,
  resource,
  details = '',
}: Documented) {
  const name = { name: path };
  const partial: TSchema = { ...body, required: [], title: `${title}Change` };
  return {
    list: { summary: `List ${plural}`, details, responses: { 200: data(Type.Array(resource)) } },
    show: { summary: `Get a ${noun}`, path: name, responses: { 200: data(resource) } },
    put: {
      summary: `Create or replace a ${noun}`,
      details: `${secretRule} ${preconditions}`,
      path: name,
      body,
      example,
      responses: { 200: data(resource), 201: data(resource) },
    },
    patch: {
      summary: `Update a ${noun}`,
      details:
        'A JSON merge patch: objects are merged, lists are replaced, and null removes a field ' +
        `unless null is one of its values. ${preconditions}`,
      path: name,
      body: partial,
      example: change,
      responses: { 200: data(resource) },
    },
    delete: {
      summary: `Delete a ${noun}`,
      details: `A built-in ${noun} of the same name applies again. ${preconditions}`,
      path: name,
      responses: { 200: deletedSchema },
    },
  } satisfies Record<string, RouteDoc>;
}

/** By kind of object. */
export const configDocs = {
  provider: docsOf({
    noun: 'provider',
    title: 'ProviderConfig',
    path: 'The name of the provider.',
    body: named('ProviderConfig', providerSchema),
    example: {
      dialect: 'openai',
      base_url: 'http://127.0.0.1:9000/v1',
      api_key: 'sk-of-the-provider',
    },
    change: { timeout_ms: 60_000 },
    resource: providerResource,
    details:
      'Includes the health of the endpoints, as seen by the process that handles the request.',
  }),
  model: docsOf({
    noun: 'model',
    title: 'ModelConfig',
    path: 'The ID of the model, `<brand>/<model>`.',
    body: { ...named('ModelConfig', modelSchema), required: modelSchema.required.slice(1) },
    example: {
      name: 'Acme Chat',
      input_modalities: ['text'],
      output_modalities: ['text'],
      endpoints: [
        { provider: 'acme', model: 'chat-1', pricing: { prompt: '0.50', completion: '1.50' } },
      ],
    },
    change: { context_length: 128_000 },
    resource: modelResource,
  }),
  alias: docsOf({
    noun: 'alias',
    plural: 'aliases',
    title: 'AliasConfig',
    path: 'The name that clients send, such as `fast` or `team/claude`.',
    body: named('AliasConfig', aliasSchema),
    example: {
      models: [
        { model: 'acme/chat', weight: 90 },
        { model: 'acme/small', weight: 10 },
      ],
    },
    change: { description: 'Our default' },
    resource: aliasResource,
  }),
  price: docsOf({
    noun: 'price',
    title: 'PriceConfig',
    path: 'The model, provider, and start time, such as `acme/chat@acme@2026-12-01T00:00:00Z`.',
    body: { ...named('PriceConfig', priceSchema), required: ['pricing'] },
    example: { pricing: { prompt: '0.40', completion: '1.20' } },
    change: { pricing: { prompt: '0.45' } },
    resource: priceResource,
    details:
      'Lists all prices: past ones, those in force, and scheduled ones. A price that has taken ' +
      "effect can't be changed, because receipts refer to it.",
  }),
  plan: docsOf({
    noun: 'plan',
    title: 'PlanConfig',
    path: 'The name of the plan.',
    body: named('PlanConfig', planSchema),
    example: { factor_basis_points: 12_000, surcharge: { request: '0.001' } },
    change: { factor_basis_points: 11_000 },
    resource: planResource,
  }),
  setting: docsOf({
    noun: 'setting',
    title: 'SettingValue',
    path: 'The path of an option, such as `limits.requests_per_minute`.',
    body: record('SettingValue', { value: Type.Unknown() }),
    example: { value: 300 },
    change: { value: 300 },
    resource: settingResource,
    details:
      'Lists the options of the configuration file that can change while the gateway runs. To ' +
      'get back to the default, delete the setting.',
  }),
};

export const restoreDoc: RouteDoc = {
  summary: 'Restore a configuration object from the audit log',
  details:
    'Gives the object of an entry the state that it had before the change, or after it. An object ' +
    `that did not exist then is deleted. Secrets stay as they are now. ${preconditions}`,
  path: { id: 'The ID of an entry of the audit log.' },
  body: named('Restore', restoreSchema),
  bodyOptional: true,
  example: { state: 'before' },
  responses: { 200: Type.Union([data(anyResource), deletedSchema]) },
};

export const newPriceDoc: RouteDoc = {
  summary: 'Change a price',
  details:
    'The price applies from `from` on, to requests that begin then. Without `from`, it applies ' +
    'in a few seconds, as soon as every process knows it.',
  body: named('NewPrice', priceSchema),
  example: {
    model: 'acme/chat',
    provider: 'acme',
    from: '2026-12-01T00:00:00Z',
    pricing: { prompt: '0.40', completion: '1.20' },
  },
  responses: { 201: data(priceResource) },
};

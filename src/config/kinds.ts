import { Check } from 'typebox/schema';
import { fieldsOf, isObject, type JsonObject, objectsIn } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import { aliasNamePattern, aliasSchema } from './alias-schema.ts';
import { builtinCatalog } from './catalog/index.ts';
import type { Config } from './config.ts';
import { modelSchema } from './model-schema.ts';
import {
  planNamePattern,
  planSchema,
  priceName,
  priceSchema,
  readPriceName,
} from './price-schema.ts';
import type { ConfigProblem } from './problems.ts';
import { providerSchema } from './provider-schema.ts';
import { settings } from './settings.ts';

// The kinds of configuration objects that can be created while the gateway runs. Each is a section
// of the file, so that both are validated alike.

/** Named documents, such as the providers of a file. */
type Documents = ReadonlyMap<string, JsonObject>;

export interface ConfigKind {
  /** The noun in sentences. */
  readonly noun: string;
  /** The last part of its routes, and the name of its commands. */
  readonly plural: string;
  /** The parameter for the name in routes. `:name{.+}` accepts slashes. */
  readonly pathParameter: string;
  /** Returns the schema of the document, or undefined if no object can have this name. */
  schemaOf(name: string): object | undefined;
  /** What is wrong with a name that has no schema, as a sentence. */
  nameProblem(name: string): string;
  /** Paths of fields that are secret. `*` stands for every name or item. */
  readonly secrets: readonly string[];
  /**
   * Returns the URL that the secrets are sent to. When it moves to another server, the secrets have
   * to be sent again.
   */
  destinationOf(document: JsonObject): string;
  /** Returns a problem that only matters outside the file, whose author can read every variable. */
  problemOf?(name: string, document: JsonObject): ConfigProblem | undefined;
  /** Returns the time from which on an object can't be changed, in epoch milliseconds. */
  lockedFrom?(name: string): number;
  /** Completes a request's document with what its path says. */
  complete(name: string, document: JsonObject): JsonObject;
  /** Returns the objects that a file has. Their documents may be invalid. */
  objectsIn(file: JsonObject): Documents;
  /** Adds an object to the data of a file, whose sections are changed. Returns its path. */
  addTo(file: FileData, name: string, document: JsonObject): string;
  /** Returns the objects that neither a file nor the store has to name. */
  builtIn(config: Config): Documents;
}

/** The data of a file. Its sections belong to nobody else. */
export type FileData = Record<string, unknown>;

const providerName = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;

const provider: ConfigKind = {
  noun: 'provider',
  plural: 'providers',
  pathParameter: ':name',
  schemaOf: (name) => (providerName.test(name) ? providerSchema : undefined),
  nameProblem: () =>
    'The name of a provider must be 1 to 63 letters, digits, "-", "_", and ".", ' +
    'starting with a letter or digit.',
  secrets: [
    'api_key',
    'previous_key.key',
    'api_keys.*.key',
    'api_keys.*.previous_key.key',
    'headers.*',
  ],
  destinationOf: ({ base_url }) => String(base_url ?? ''),
  problemOf: (name, { api_key, api_keys, credentials, base_url }) => {
    const builtIn = builtinCatalog.providers.find((one) => one.name === name);
    const hasKey = [api_key, api_keys, credentials].some((field) => field !== undefined);
    if (!builtIn || hasKey || base_url === undefined) return undefined;
    if (URL.parse(String(base_url))?.origin === URL.parse(builtIn.base_url)?.origin)
      return undefined;
    const message =
      `is required, because base_url is not that of ${name}, so ${builtIn.api_key_env} is not ` +
      'sent there; set null if no key is needed';
    return { path: 'api_key', message };
  },
  complete: (_, document) => document,
  objectsIn: ({ providers }) => new Map(entriesOf(providers)),
  addTo: (file, name, document) => addNamed(file, 'providers', name, document),
  builtIn: ({ providers }) =>
    new Map(
      builtinCatalog.providers
        .filter(({ name }) => providers.has(name))
        .map(({ name, dialect, base_url, quirks }) => [
          name,
          { dialect, base_url, ...(quirks && { quirks }) },
        ]),
    ),
};

const model: ConfigKind = {
  noun: 'model',
  plural: 'models',
  pathParameter: ':name{.+}',
  schemaOf: (name) => (Check(modelSchema.properties.id, name) ? modelSchema : undefined),
  nameProblem: () => 'The ID of a model must have the form <brand>/<model>.',
  secrets: [],
  destinationOf: () => '',
  complete: (id, document) => ({ id, ...document }),
  objectsIn: ({ models }) =>
    new Map(objectsIn(models).map((document) => [String(document.id), document])),
  addTo: (file, _, document) => addItem(file, 'models', document),
  builtIn: ({ models }) => {
    const ids = new Set(models.filter(({ isBuiltIn }) => isBuiltIn).map(({ id }) => id));
    return new Map(
      builtinCatalog.models.filter(({ id }) => ids.has(id)).map((one) => [one.id, { ...one }]),
    );
  },
};

const setting: ConfigKind = {
  noun: 'setting',
  plural: 'settings',
  pathParameter: ':name',
  schemaOf: (name) => settings.get(name)?.schema,
  nameProblem: (name) => {
    const hint = didYouMean(name, settings.keys()) || '.';
    const unknown = `There is no setting "${name.slice(0, 100)}"`;
    return `${unknown} that can change while the gateway runs${hint}`;
  },
  secrets: ['value.api_key'],
  destinationOf: ({ value }) => {
    const { engine, url } = fieldsOf(value);
    return String(url ?? engine ?? '');
  },
  complete: (_, document) => document,
  objectsIn: (file) =>
    new Map(
      [...settings].flatMap(([name, { path }]) => {
        const value = path.reduce<unknown>((section, key) => fieldsOf(section)[key], file);
        return value === undefined ? [] : [[name, { value }] as const];
      }),
    ),
  addTo: (file, name, { value }) => {
    const { path: [section = '', field] = [] } = settings.get(name) ?? {};
    if (field !== undefined) return addNamed(file, section, field, value);
    file[section] = value;
    return section;
  },
  builtIn: (config) =>
    new Map([...settings].map(([name, { read }]) => [name, { value: read(config) }])),
};

const alias: ConfigKind = {
  noun: 'alias',
  plural: 'aliases',
  pathParameter: ':name{.+}',
  schemaOf: (name) => (new RegExp(aliasNamePattern).test(name) ? aliasSchema : undefined),
  nameProblem: () =>
    'The name of an alias must be 1 to 199 characters without spaces and control characters, and ' +
    '"*" only at the end.',
  secrets: [],
  destinationOf: () => '',
  complete: (_, document) => document,
  objectsIn: ({ aliases }) => new Map(entriesOf(aliases)),
  addTo: (file, name, document) => addNamed(file, 'aliases', name, document),
  builtIn: () => new Map(),
};

const price: ConfigKind = {
  noun: 'price',
  plural: 'prices',
  pathParameter: ':name{.+}',
  schemaOf: (name) => (readPriceName(name) ? priceSchema : undefined),
  nameProblem: () =>
    'The name of a price must have the form <model>@<provider>@<time>, or ' +
    '<model>@<provider>/<upstream model>@<time>, with a time such as 2026-12-01T00:00:00Z.',
  secrets: [],
  destinationOf: () => '',
  problemOf: (name, document) => {
    const inPath = { upstream_model: undefined, ...readPriceName(name) };
    for (const [field, value] of Object.entries(inPath)) {
      if (document[field] === value) continue;
      const message =
        value === undefined
          ? "must be left out, because the path doesn't name it"
          : `must be "${value}", as in the path, or be left out`;
      return { path: field, message };
    }
    return undefined;
  },
  lockedFrom: (name) => Date.parse(readPriceName(name)?.from ?? ''),
  complete: (name, document) => ({ ...readPriceName(name), ...document }),
  objectsIn: ({ prices }) =>
    new Map(objectsIn(prices).map((document) => [priceName(document), document])),
  addTo: (file, _, document) => addItem(file, 'prices', document),
  builtIn: () => new Map(),
};

const plan: ConfigKind = {
  noun: 'plan',
  plural: 'plans',
  pathParameter: ':name',
  schemaOf: (name) => (new RegExp(planNamePattern).test(name) ? planSchema : undefined),
  nameProblem: () =>
    'The name of a plan must be 1 to 63 letters, digits, "-", "_", and ".", starting with a ' +
    'letter or digit.',
  secrets: [],
  destinationOf: () => '',
  complete: (_, document) => document,
  objectsIn: ({ plans }) => new Map(entriesOf(plans)),
  addTo: (file, name, document) => addNamed(file, 'plans', name, document),
  builtIn: () => new Map(),
};

/** In the order in which the objects are added to a file's data. */
export const configKinds = {
  setting,
  provider,
  model,
  alias,
  price,
  plan,
} as const satisfies Record<string, ConfigKind>;
export type KindName = keyof typeof configKinds;
export const kindNames = Object.keys(configKinds) as readonly KindName[];

export function isKindName(name: string): name is KindName {
  return Object.hasOwn(configKinds, name);
}

function addNamed(file: FileData, section: string, name: string, value: unknown): string {
  const fields = fieldsOf(file[section]);
  file[section] = fields;
  // An assignment to the name `__proto__` adds no field.
  Object.defineProperty(fields, name, {
    ...{ value, enumerable: true, configurable: true, writable: true },
  });
  return `${section}.${name}`;
}

function addItem(file: FileData, section: string, document: JsonObject): string {
  const items: unknown = file[section];
  const list: unknown[] = Array.isArray(items) ? items : [];
  file[section] = list;
  return `${section}[${list.push(document) - 1}]`;
}

function entriesOf(section: unknown): [string, JsonObject][] {
  return Object.entries(fieldsOf(section)).flatMap(([name, document]) =>
    isObject(document) ? [[name, document]] : [],
  );
}

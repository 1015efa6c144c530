import type { ModelConfig } from '../model-schema.ts';
import type { DialectName, Quirks } from '../provider-schema.ts';
import type { PriceSource } from '../schema-fields.ts';
import anthropic from './anthropic.yaml';
import cohere from './cohere.yaml';
import deepseek from './deepseek.yaml';
import gemini from './gemini.yaml';
import groq from './groq.yaml';
import mistral from './mistral.yaml';
import openai from './openai.yaml';
import siliconflow from './siliconflow.yaml';
import together from './together.yaml';
import xai from './xai.yaml';

// The built-in catalog, with one file per vendor. It is imported, so that the executable includes
// it. Each model is in only one file; its endpoints may name any vendor of the catalog.

/** A provider that can be called if its key is in the environment. */
export interface BuiltinProvider {
  readonly name: string;
  readonly label: string;
  readonly api_key_env: string;
  readonly dialect: DialectName;
  readonly base_url: string;
  /** The names of the provider in public price lists, if they differ from its name. */
  readonly price_lists?: { readonly litellm?: string; readonly models_dev?: string };
  readonly quirks?: Quirks;
}

interface CatalogFile {
  /** The source of the vendor's prices. An endpoint can have its own. */
  readonly price_source: PriceSource;
  readonly provider: BuiltinProvider;
  readonly models: readonly ModelConfig[];
}

// catalog.test.ts checks each file against the schemas, so they are not validated at each startup.
const files = [
  openai,
  anthropic,
  gemini,
  cohere,
  siliconflow,
  groq,
  deepseek,
  mistral,
  xai,
  together,
] as readonly unknown[] as readonly CatalogFile[];

export const builtinCatalog: {
  readonly providers: readonly BuiltinProvider[];
  readonly models: readonly ModelConfig[];
  /** By provider. */
  readonly priceSources: ReadonlyMap<string, PriceSource>;
} = {
  providers: files.map((file) => file.provider),
  models: files.flatMap((file) => file.models),
  priceSources: new Map(files.map((file) => [file.provider.name, file.price_source])),
};

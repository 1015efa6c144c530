/** The kinds of configuration objects, as their page shows them. */

export interface ConfigKind {
  /** The last part of the API's path. */
  readonly plural: string;
  readonly title: string;
  readonly noun: string;
  /** The noun with its article. */
  readonly one: string;
  /** The name and document to start a new object with. Settings can't be created. */
  readonly example?: { readonly name: string; readonly document: object };
}

export const configKinds = {
  providers: {
    plural: 'providers',
    title: 'Providers',
    noun: 'provider',
    one: 'a provider',
    example: { name: 'acme', document: { dialect: 'openai', base_url: '' } },
  },
  models: {
    plural: 'models',
    title: 'Models',
    noun: 'model',
    one: 'a model',
    example: {
      name: 'acme/chat',
      document: {
        name: '',
        input_modalities: ['text'],
        output_modalities: ['text'],
        endpoints: [{ provider: '', model: '', pricing: {} }],
      },
    },
  },
  aliases: {
    plural: 'aliases',
    title: 'Aliases',
    noun: 'alias',
    one: 'an alias',
    example: { name: 'fast', document: { models: [{ model: '' }] } },
  },
  plans: {
    plural: 'plans',
    title: 'Plans',
    noun: 'plan',
    one: 'a plan',
    example: { name: 'reseller', document: { factor_basis_points: 12_000 } },
  },
  settings: { plural: 'settings', title: 'Settings', noun: 'setting', one: 'a setting' },
} as const satisfies Readonly<Record<string, ConfigKind>>;

/** Returns the API's path of an object. Names of models contain slashes. */
export function configPath({ plural }: ConfigKind, name: string): string {
  return `/admin/v1/${plural}/${name.split('/').map(encodeURIComponent).join('/')}`;
}

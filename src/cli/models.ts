import type { ListedModel } from '../config/config.ts';
import { textOf } from '../core/json.ts';
import { unitPrices } from '../money/price/price-classes.ts';
import type { Command, Topic } from './command.ts';
import { configCommands, listCommand } from './config-objects.ts';
import { printJson, table } from './output.ts';

const available: Command = {
  name: '',
  summary: 'List the models that are available',
  options: {
    all: { summary: "Include models whose provider isn't configured" },
  },
  async run(context) {
    const all = await context.models();
    const listed = context.args.has('all') ? all : all.filter(({ isConfigured }) => isConfigured);
    if (context.args.has('json')) return printJson(context, { data: listed.map(modelObject) });
    if (listed.length === 0) {
      return context.out(
        'No models are available. Configure a provider, or add --all to list all models.',
      );
    }
    const rows = listed.map((model) => {
      const pricing = model.endpoints[0]?.pricing ?? {};
      return [
        model.id,
        model.name,
        model.context_length ?? null,
        pricing.prompt ?? null,
        pricing.completion ?? null,
        otherPrices(pricing),
        `${model.isConfigured ? '' : 'not configured: '}${sharesOf(model).join(', ')}`,
      ];
    });
    const prices = ['USD/M IN', 'USD/M OUT', 'OTHER PRICES (USD)'];
    context.out(table(['ID', 'NAME', 'CONTEXT', ...prices, 'PROVIDERS'], rows));
  },
};

export const models: Topic = {
  name: 'models',
  summary: 'List the models that are available, and manage them while gateways run',
  commands: [
    available,
    listCommand('model', ({ name }) => textOf(name)),
    ...configCommands({
      kind: 'model',
      positional: '<id>',
      fields: {},
      documentIn: () => ({}),
    }),
  ],
  examples: ['tollgate models --all', 'tollgate models set acme/chat < chat.yaml'],
};

/** The prices that aren't per token. The price per request always applies, so it comes first. */
const otherPriceClasses = unitPrices.toSorted(
  (a, b) => Number(b.name === 'request') - Number(a.name === 'request'),
);

/** Returns the model's prices that aren't per token, or null if it has none. */
function otherPrices(pricing: Readonly<Record<string, unknown>>): string | null {
  const priced = otherPriceClasses.filter(({ name }) => pricing[name] !== undefined);
  return (
    priced.map(({ name, unitLabel }) => `${pricing[name]} per ${unitLabel}`).join(', ') || null
  );
}

function modelObject(model: ListedModel) {
  const { id, name, context_length = null, features, isConfigured } = model;
  const endpoints = model.endpoints.map(({ provider, priority, weight = null }) => ({
    provider,
    priority,
    weight,
  }));
  const providers = providersOf(model);
  return { id, name, context_length, features, live: isConfigured, providers, endpoints };
}

/** Returns the providers, with the weights that split the requests between them. */
function sharesOf({ endpoints }: ListedModel): string[] {
  const shares = endpoints.map(({ provider, weight }) =>
    weight === undefined ? provider : `${provider} (weight ${weight})`,
  );
  return [...new Set(shares)];
}

function providersOf({ endpoints }: ListedModel): string[] {
  return [...new Set(endpoints.map((endpoint) => endpoint.provider))];
}

import { parse } from 'yaml';
import type { PricingConfig } from '../config/model-schema.ts';
import { priceName } from '../config/price-schema.ts';
import type { PriceObject } from '../contract/config.ts';
import { putObject } from '../control/config-service.ts';
import { listPriceObjects } from '../control/listed-prices.ts';
import { soonestStart } from '../control/start-times.ts';
import { invalidRequest, notFound } from '../core/errors.ts';
import { definedFields, fieldsOf, isObject } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import { priceClasses, priceNames } from '../money/price/price-classes.ts';
import type { Args, Command, Context, Option, Topic } from './command.ts';
import { configCommands } from './config-objects.ts';
import { type Cell, formatMinute, printJson, printTable } from './output.ts';
import { apply, check } from './price-check.ts';

const list: Command = {
  name: 'list',
  summary: 'List the prices in force, with their source and its age',
  options: {
    model: { value: '<id>', summary: 'Only this model' },
    provider: { value: '<name>', summary: 'Only this provider' },
    all: { summary: 'Also past and scheduled prices' },
  },
  async run(context) {
    const { args } = context;
    const [model, provider] = [args.text('model'), args.text('provider')];
    const prices = (await listed(context)).filter(
      (price) =>
        (args.has('all') || price.state === 'in_force') &&
        (model === undefined || price.model === model) &&
        (provider === undefined || price.provider === provider),
    );
    print(context, prices, args.has('all'));
  },
};

const history: Command = {
  name: 'history',
  summary: 'List all prices of a model: past, in force, and scheduled',
  positional: '<model>',
  options: {},
  async run(context) {
    const model = context.args.positional;
    const prices = await listed(context);
    const ofModel = prices.filter((price) => price.model === model);
    if (ofModel.length === 0) throw unknownModel(model, prices);
    print(context, ofModel, true);
  },
};

const priceOptions: Readonly<Record<string, Option>> = {
  provider: { value: '<name>', summary: "The provider; required if it isn't the only one" },
  'upstream-model': {
    value: '<name>',
    summary: 'Which endpoint, if the model has several at the provider',
  },
  ...Object.fromEntries(
    priceNames.map((name) => [
      name.replaceAll('_', '-'),
      { value: '<usd>', summary: `US dollars ${priceClasses[name].priceLabel}` },
    ]),
  ),
  source: { value: '<text>', summary: 'Where you read the price' },
  'source-date': { value: '<date>', summary: 'When you read it (default: unknown)' },
};

const set: Command = {
  name: 'set',
  summary: 'Change a price in a few seconds; other prices of the endpoint stay as they are',
  positional: '<model>',
  options: priceOptions,
  run: (context) => change(context, undefined),
};

const schedule: Command = {
  name: 'schedule',
  summary: 'Change a price at a time; other prices of the endpoint stay as they are',
  positional: '<model>',
  options: {
    from: { value: '<time>', summary: 'Such as 2026-12-01T00:00:00Z', required: true },
    ...priceOptions,
  },
  run: (context) => change(context, context.args.text('from')),
};

/** Saves a price of the store, from options or from YAML of the complete `pricing` on stdin. */
async function change(context: Context, at: string | undefined): Promise<void> {
  const { args } = context;
  const { control, now } = await context.services();
  const id = endpointIn(args, await listed(context));
  const from = at ?? soonestStart(now());
  const before = inForceAt(await listed(context), id, from);
  const sources = { name: args.text('source'), date: args.text('source-date') };
  const body = definedFields({
    pricing: await pricingIn(context, before),
    price_source: sources.name === undefined ? undefined : definedFields(sources),
  });
  const name = priceName({ ...id, from });
  const { object } = await putObject(control, { kind: 'price', name }, body, { isNew: true });
  if (args.has('json')) return printJson(context, { data: { name, ...object.document } });
  context.out(`The price "${name}" applies from ${from} on.`);
}

interface EndpointId {
  readonly model: string;
  readonly provider: string;
  readonly upstream_model?: string;
}

/** Returns the endpoint that the options name. Throws 400, 404. */
function endpointIn(args: Args, prices: readonly PriceObject[]): EndpointId {
  const model = args.positional;
  const providers = [
    ...new Set(prices.filter((price) => price.model === model).map(({ provider }) => provider)),
  ];
  if (providers.length === 0) throw unknownModel(model, prices);
  const provider = args.text('provider') ?? (providers.length === 1 ? providers[0] : undefined);
  if (provider === undefined) {
    const names = providers.join(', ');
    const message = `${model} has several providers. Set --provider to one of ${names}.`;
    throw invalidRequest(message, 'provider');
  }
  if (!providers.includes(provider)) {
    const message = `${model} has no provider "${provider}". It has ${providers.join(', ')}.`;
    throw invalidRequest(message, 'provider');
  }
  const upstream = args.text('upstream-model');
  return { model, provider, ...(upstream !== undefined && { upstream_model: upstream }) };
}

/** Returns the prices that an endpoint has at a time. Throws 400 if several endpoints are meant. */
function inForceAt(
  prices: readonly PriceObject[],
  { model, provider, upstream_model: upstream }: EndpointId,
  from: string,
): PricingConfig {
  const atProvider = prices.filter((price) => price.model === model && price.provider === provider);
  const endpoints = [...new Set(atProvider.map((price) => price.upstream_model))];
  const endpoint = upstream ?? (endpoints.length === 1 ? endpoints[0] : undefined);
  if (endpoint === undefined || !endpoints.includes(endpoint)) {
    const message = `Set --upstream-model to an endpoint of ${model} at ${provider}`;
    throw invalidRequest(`${message}: ${endpoints.join(', ')}.`, 'upstream-model');
  }
  const started = atProvider.filter(
    (price) =>
      price.upstream_model === endpoint &&
      (price.from === null || Date.parse(price.from) <= Date.parse(from)),
  );
  return pricingOf(started.at(-1));
}

/** The contract has the schema of the configuration, but not its type. */
function pricingOf(price: PriceObject | undefined): PricingConfig {
  return fieldsOf(price?.pricing);
}

async function pricingIn(context: Context, before: PricingConfig): Promise<unknown> {
  const { args } = context;
  const changed = definedFields(
    Object.fromEntries(priceNames.map((name) => [name, args.text(name.replaceAll('_', '-'))])),
  );
  if (Object.keys(changed).length > 0) return { ...before, ...changed };
  const text = await context.input({ text: 'YAML of the prices, such as { prompt: "0.40" }' });
  try {
    const pricing: unknown = parse(text);
    if (isObject(pricing)) return pricing;
  } catch {
    // Reported below, like any other text that isn't a section.
  }
  throw invalidRequest('Set prices with options such as --prompt, or as YAML on stdin.', 'pricing');
}

async function listed(context: Context): Promise<PriceObject[]> {
  const { control, currentConfig } = await context.services();
  return listPriceObjects(control, await currentConfig());
}

function unknownModel(model: string, prices: readonly PriceObject[]) {
  const known = new Set(prices.map((price) => price.model));
  return notFound(`There is no model "${model}"${didYouMean(model, known) || '.'}`, 'model');
}

function print(context: Context, prices: readonly PriceObject[], withStates: boolean): void {
  if (context.args.has('json')) {
    printJson(context, { data: prices });
    return;
  }
  const rows = prices.map((price): Cell[] => [
    price.model,
    price.provider,
    ...(withStates ? [price.state.replace('_', ' '), formatMinute(price.from)] : []),
    ...pricingCells(pricingOf(price)),
    price.owner === 'file' ? price.source : price.owner.replace('_', '-'),
    price.price_source?.date ?? null,
    ageOf(price),
  ]);
  const times = withStates ? ['STATE', 'FROM (UTC)'] : [];
  const header = ['MODEL', 'PROVIDER', ...times, 'USD/M IN', 'USD/M OUT', 'OTHER PRICES'];
  printTable(context, 'prices', [...header, 'SET BY', 'SOURCE OF', 'AGE'], rows);
}

function pricingCells({ prompt, completion, long_prompts, ...others }: PricingConfig): Cell[] {
  const texts = Object.entries(others).map(([name, price]) => `${name} ${price}`);
  if (long_prompts !== undefined) texts.push('long prompts');
  return [prompt ?? null, completion ?? null, texts.join(', ') || null];
}

/** Returns the age of a price. "about" stands for the date of the provider's list. */
function ageOf({ price_source: source }: PriceObject): string | null {
  if (!source || source.age_days === null) return null;
  return `${source.dated === 'catalog' ? 'about ' : ''}${source.age_days} days`;
}

const stored = configCommands({
  kind: 'price',
  positional: '<name>',
  fields: {},
  documentIn: () => ({}),
});

export const prices: Topic = {
  name: 'prices',
  summary: 'Manage prices and their history, and compare them with public lists',
  commands: [
    list,
    history,
    set,
    schedule,
    // `set` above knows the price in force.
    ...stored.filter(({ name }) => name !== 'set'),
    check,
    apply,
  ],
  examples: [
    'tollgate prices set acme/chat --prompt 0.40 --completion 1.20',
    'tollgate prices schedule acme/chat --from 2026-12-01T00:00:00Z --prompt 0.45',
    'tollgate prices check model_prices_and_context_window.json',
    'tollgate prices apply https://models.dev/api.json --model openai/gpt-5-mini',
  ],
};

import { statSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { stringify } from 'yaml';
import {
  compareWithList,
  type EndpointDifference,
  type PriceCheck,
} from '../config/price-lists/compare.ts';
import {
  formatNames,
  priceListBytesMax,
  readPriceListFile,
} from '../config/price-lists/price-list-file.ts';
import type { PriceConfig } from '../config/price-schema.ts';
import type { PriceSource } from '../config/schema-fields.ts';
import type { PriceObject } from '../contract/config.ts';
import { listPriceObjects } from '../control/listed-prices.ts';
import { type Approval, approvePrices, savePrices } from '../control/price-approval.ts';
import { soonestStart } from '../control/start-times.ts';
import { failureCode, failureMessage, invalidRequest, notFound } from '../core/errors.ts';
import { didYouMean } from '../core/text.ts';
import type { Args, Command, CommandServices, Context } from './command.ts';
import { formatCount, printJson } from './output.ts';
import { addedTable, checkObject, differenceTable } from './price-differences.ts';

// Compares the prices in force with the public lists of LiteLLM and models.dev.

/** Returned by `prices check` if the list differs. */
const differsExitCode = 3;

const selection = {
  model: { value: '<id,…>', summary: 'Only these models' },
  provider: { value: '<name,…>', summary: 'Only these providers' },
  names: {
    value: '<provider>=<name in the list>,…',
    summary: 'What the list calls your providers, such as eu=azure',
  },
} as const;

export const check: Command = {
  name: 'check',
  summary: `Compare prices with a public list; the exit code is ${differsExitCode} if they differ`,
  positional: '<file or URL>',
  options: {
    ...selection,
    new: { summary: 'Also list the models of the list that you have not configured' },
    write: { value: '<file>', summary: 'Write the changes as YAML, for "tollgate config import"' },
  },
  async run(context) {
    const { args } = context;
    const checked = await checkList(context);
    const { result, listed, source } = checked;
    const path = args.text('write');
    const approval = approvePrices(result.differences, {
      ...{ listed, source, isForced: true },
      from: nextFullHour(context.now()),
    });
    if (path !== undefined) await writeChanges(path, approval.prices, result);
    if (args.has('json')) printJson(context, { data: checkObject(result, source) });
    else printCheck(context, checked);
    if (path !== undefined) {
      reportLeftOut(context, approval);
      const count = formatCount(approval.prices.length, 'price');
      context.err(`Wrote ${count} to ${path}. Edit it, then run: tollgate config import ${path}`);
    }
    if (result.differences.length + result.unlisted.length > 0) context.exitWith(differsExitCode);
  },
};

export const apply: Command = {
  name: 'apply',
  summary: 'Change prices to those of a public list, all of them or none',
  positional: '<file or URL>',
  options: {
    ...selection,
    all: { summary: 'All prices that differ' },
    from: { value: '<time>', summary: 'When they start (default: in a few seconds)' },
    force: { summary: 'Also changes of more than tenfold, and from or to 0' },
  },
  requiresOneOf: ['all', 'model', 'provider'],
  async run(context) {
    const { args } = context;
    const { result, listed, source, services } = await checkList(context);
    const from = args.text('from') ?? soonestStart(services.now());
    const options = { listed, source, from, isForced: args.has('force') };
    const approval = approvePrices(result.differences, options);
    const { prices, leftOut } = approval;
    if (prices.length > 0) await savePrices(services.control, prices);
    const changed = result.differences.filter((difference) =>
      prices.some(({ model, provider }) => isAt(difference, model, provider)),
    );
    if (args.has('json')) printJson(context, { data: { prices, left_out: leftOut } });
    else if (prices.length > 0) context.out(differenceTable(changed, listed));
    reportLeftOut(context, approval);
    if (prices.length > 0) {
      context.err(`${formatCount(prices.length, 'price')} changed from ${from} on.`);
    } else if (leftOut.length > 0) {
      throw invalidRequest('No price was changed.');
    } else context.err('Nothing changes.');
  },
};

function isAt(difference: EndpointDifference, model: string, provider: string): boolean {
  return difference.model === model && difference.provider === provider;
}

function reportLeftOut({ err }: Context, { leftOut }: Approval): void {
  for (const { model, provider, reason } of leftOut) {
    err(`Left out: ${model} at ${provider} ${reason}.`);
  }
}

interface CheckedList {
  readonly result: PriceCheck;
  readonly listed: readonly PriceObject[];
  readonly source: PriceSource;
  readonly services: CommandServices;
}

async function checkList(context: Context): Promise<CheckedList> {
  const { args, now } = context;
  const services = await context.services();
  const config = await services.currentConfig();
  const models = known(args, 'model', new Set(config.models.map(({ id }) => id)));
  const providers = known(args, 'provider', new Set(config.providers.keys()));
  const names = namesIn(args, new Set(config.providers.keys()));
  const list = await readList(args.positional, services);
  const result = compareWithList(config, list, {
    ...{ now: services.now(), names },
    isChecked: (model, provider) =>
      (models?.has(model) ?? true) && (providers?.has(provider) ?? true),
  });
  return {
    result,
    listed: await listPriceObjects(services.control, config),
    source: {
      name: `${formatNames[list.format]}: ${sourceName(args.positional)}`.slice(0, 500),
      date: new Date(now()).toISOString().slice(0, 10),
    },
    services,
  };
}

/** Returns the names in an option, or undefined if it isn't set. Throws 404. */
function known(args: Args, option: string, all: ReadonlySet<string>): Set<string> | undefined {
  const names = args.list(option);
  const unknown = names?.find((name) => !all.has(name));
  if (unknown === undefined) return names && new Set(names);
  throw notFound(`There is no ${option} "${unknown}"${didYouMean(unknown, all) || '.'}`, option);
}

function namesIn(args: Args, providers: ReadonlySet<string>): ReadonlyMap<string, string> {
  const pairs = (args.list('names') ?? []).map((pair) => pair.split('='));
  for (const [provider = '', name] of pairs) {
    if (name && providers.has(provider)) continue;
    const expected = '--names must have the form <provider>=<name in the list>';
    throw invalidRequest(`${expected}, with a provider of yours, not "${provider}".`, 'names');
  }
  return new Map(pairs.map(([provider = '', name = '']) => [provider, name]));
}

const isUrl = (text: string) => /^https?:\/\//i.test(text);

/** Returns the address without what may be secret. */
function sourceName(text: string): string {
  const url = isUrl(text) ? URL.parse(text) : null;
  return url ? `${url.origin}${url.pathname}` : text;
}

async function readList(source: string, services: CommandServices) {
  const where = `The price list ${sourceName(source)}`;
  const text = isUrl(source) ? await downloaded(source, services) : await readText(source);
  try {
    return readPriceListFile(text);
  } catch (error) {
    throw invalidRequest(`${where} can't be used. ${failureMessage(error)}`);
  }
}

const tooLarge = `it is larger than ${priceListBytesMax / 1024 / 1024} MB`;

async function readText(path: string): Promise<string> {
  try {
    const { size } = statSync(path);
    if (size > priceListBytesMax) throw invalidRequest(tooLarge);
    return await readFile(path, 'utf8');
  } catch (error) {
    const reasons: Readonly<Record<string, string>> = {
      ENOENT: 'there is no such file',
      EISDIR: 'it is a folder',
      EACCES: 'it must not be read by this user',
    };
    const reason = reasons[failureCode(error) ?? ''] ?? failureMessage(error);
    throw invalidRequest(`The price list ${path} can't be read: ${reason}.`);
  }
}

async function downloaded(url: string, { download }: CommandServices): Promise<string> {
  const result = await download(url, priceListBytesMax);
  const where = `The price list ${sourceName(url)} can't be read`;
  if (!result.ok) throw invalidRequest(`${where}: ${result.reason}`);
  if (result.status !== 200) {
    throw invalidRequest(`${where}: The server answered with HTTP ${result.status}.`);
  }
  return new TextDecoder().decode(result.bytes);
}

/** Leaves an hour to edit and import the file. */
function nextFullHour(now: number): string {
  const hours = Math.ceil(now / 3_600_000) + 1;
  return new Date(hours * 3_600_000).toISOString().replace('.000Z', 'Z');
}

async function writeChanges(
  path: string,
  prices: readonly PriceConfig[],
  { differences }: PriceCheck,
): Promise<void> {
  const entries = prices.map((price) => {
    const difference = differences.find(
      ({ model, provider, upstreamModel }) =>
        [model === price.model, provider === price.provider].every(Boolean) &&
        (price.upstream_model ?? upstreamModel) === upstreamModel,
    );
    const comments = (difference?.prices ?? []).map(
      ({ name, aboveTokens, before, after, isLarge }) => {
        const tier = aboveTokens === null ? '' : ` above ${aboveTokens} tokens`;
        return `# ${isLarge ? 'CHECK: ' : ''}${name}${tier}: ${before} -> ${after}\n`;
      },
    );
    return comments.join('') + stringify([price]);
  });
  const text = entries.length === 0 ? 'prices: []\n' : `prices:\n${entries.join('\n')}`;
  try {
    await writeFile(path, text, { flag: 'wx' });
  } catch (error) {
    const reason = failureCode(error) === 'EEXIST' ? 'it exists already' : failureMessage(error);
    throw invalidRequest(`${path} can't be written: ${reason}.`, 'write');
  }
}

function printCheck(context: Context, { result, listed }: CheckedList): void {
  const { out, args } = context;
  const { format, matched, differences, unlisted, unlistedProviders, added } = result;
  const parts: (string | null)[] = [
    differences.length > 0 ? differenceTable(differences, listed) : null,
    ...notesOf(differences),
    unlisted.length > 0
      ? `Not in the list, which may lack them, or which shows that they ended:\n${unlisted
          .map(
            ({ model, provider, upstreamModel }) => `  ${model} at ${provider} (${upstreamModel})`,
          )
          .join('\n')}`
      : null,
    args.has('new') && added.length > 0 ? addedTable(added) : null,
  ];
  const text = parts.filter((part) => part !== null).join('\n\n');
  if (text !== '') out(text);
  const found = formatCount(matched, 'endpoint');
  const changed = differences.length === 0 ? 'none differs' : `${differences.length} differ`;
  context.err(`${formatNames[format]} has ${found} of yours; ${changed}.`);
  if (unlistedProviders.length > 0) {
    context.err(
      `It has no models of ${unlistedProviders.join(', ')}. Use --names if it calls them otherwise.`,
    );
  }
  if (added.length > 0 && !args.has('new')) {
    const models = formatCount(added.length, 'other model');
    context.err(`It has ${models} of these providers. Add --new to list them.`);
  }
}

function notesOf(differences: readonly EndpointDifference[]): string[] {
  const lines = differences.flatMap(({ model, provider, lacking, notes, problems }) => {
    const lacks =
      lacking.length > 0 ? [`the list has no ${lacking.join(', ')}; it stays as it is`] : [];
    const unread = problems.map((problem) => `this price can't be used: ${problem}`);
    return [...lacks, ...notes, ...unread].map((note) => `  ${model} at ${provider}: ${note}`);
  });
  return lines.length > 0 ? [`Notes:\n${lines.join('\n')}`] : [];
}

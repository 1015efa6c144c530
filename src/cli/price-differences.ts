import type { EndpointDifference, PriceCheck } from '../config/price-lists/compare.ts';
import type { PriceSource } from '../config/schema-fields.ts';
import type { PriceObject } from '../contract/config.ts';
import { type Cell, table } from './output.ts';

// How differences to a public price list are shown.

export function differenceTable(
  differences: readonly EndpointDifference[],
  listed: readonly PriceObject[],
): string {
  const rows = differences.flatMap((difference) => rowsOf(difference, ownerOf(difference, listed)));
  return table(['MODEL', 'PROVIDER', 'FIELD', 'IN FORCE', 'LIST', 'CHANGE', 'SET BY'], rows);
}

function rowsOf(difference: EndpointDifference, owner: string): Cell[][] {
  const { model, provider, prices, limits, features, nextChange } = difference;
  const later = nextChange === null ? '' : `, next ${new Date(nextChange).toISOString()}`;
  const yesOrNo = (value: boolean) => (value ? 'yes' : 'no');
  return [
    ...prices.map(({ name, aboveTokens, before, after, isLarge }) => {
      const tier = aboveTokens === null ? '' : ` above ${aboveTokens.toLocaleString('en-US')}`;
      const change = `${percentOf(before, after)}${isLarge ? ', check this' : ''}`;
      return [model, provider, `${name}${tier}`, before, after, change, `${owner}${later}`];
    }),
    ...limits.map(({ field, before, after }) => {
      return [
        model,
        provider,
        field,
        before.toLocaleString('en-US'),
        after.toLocaleString('en-US'),
      ];
    }),
    ...features.map(({ feature, before, after }) => {
      return [model, provider, feature, yesOrNo(before), yesOrNo(after)];
    }),
  ].map((row) => [...row, ...Array<Cell>(7 - row.length).fill(null)]);
}

/** Returns the change in percent, to read. */
function percentOf(before: string, after: string): string {
  const [old, changed] = [Number(before), Number(after)];
  if (old === 0) return 'was free';
  if (changed === 0) return 'free';
  const percent = (changed / old - 1) * 100;
  const rounded = Math.abs(percent) < 10 ? percent.toFixed(1) : String(Math.round(percent));
  return `${percent > 0 ? '+' : ''}${rounded}%`;
}

function ownerOf(
  { model, provider, upstreamModel }: EndpointDifference,
  listed: readonly PriceObject[],
): string {
  const price = listed.find(
    (one) =>
      one.state === 'in_force' &&
      one.model === model &&
      one.provider === provider &&
      one.upstream_model === upstreamModel,
  );
  return price?.source ?? price?.owner.replace('_', '-') ?? '';
}

export function addedTable(added: PriceCheck['added']): string {
  const rows = added.map(({ provider, upstreamModel, prices, contextLength }): Cell[] => [
    provider,
    upstreamModel,
    contextLength,
    prices.prompt ?? null,
    prices.completion ?? null,
  ]);
  return table(['PROVIDER', 'NEW MODEL', 'CONTEXT', 'USD/M IN', 'USD/M OUT'], rows);
}

/** The result as JSON, with the names of the HTTP API. */
export function checkObject(
  { format, matched, differences, unlisted, unlistedProviders, added }: PriceCheck,
  source: PriceSource,
) {
  return {
    ...{ format, source, matched },
    differences: differences.map(
      ({ upstreamModel, prices, nextChange, limits, features, lacking, ...rest }) => ({
        model: rest.model,
        provider: rest.provider,
        upstream_model: upstreamModel,
        prices: prices.map(({ name, aboveTokens, before, after, isLarge }) => {
          return { name, above_tokens: aboveTokens, before, after, large: isLarge };
        }),
        ...{ limits, features, lacking, notes: rest.notes, problems: rest.problems },
        pricing: rest.pricing,
        next_change: nextChange === null ? null : new Date(nextChange).toISOString(),
      }),
    ),
    unlisted: unlisted.map(({ model, provider, upstreamModel }) => {
      return { model, provider, upstream_model: upstreamModel };
    }),
    unlisted_providers: unlistedProviders,
    added: added.map(({ provider, upstreamModel, prices, contextLength }) => {
      return { provider, upstream_model: upstreamModel, prices, context_length: contextLength };
    }),
  };
}

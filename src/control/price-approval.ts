import type { EndpointDifference, EndpointId } from '../config/price-lists/compare.ts';
import { type PriceConfig, priceName } from '../config/price-schema.ts';
import type { PriceSource } from '../config/schema-fields.ts';
import type { PriceObject } from '../contract/config.ts';
import type { ConfigServiceDeps } from './config-service.ts';
import { importConfig } from './config-transfer.ts';
import { requireFutureStart } from './start-times.ts';

// Prices of a public list become prices in the store once an operator has approved them.

interface ApprovalOptions {
  /** The prices of all endpoints. */
  readonly listed: readonly PriceObject[];
  readonly from: string;
  readonly source: PriceSource;
  /** Whether changes that may be mistakes are approved, too. */
  readonly isForced: boolean;
}

export interface Approval {
  readonly prices: readonly PriceConfig[];
  readonly leftOut: readonly LeftOut[];
}

interface LeftOut extends EndpointId {
  readonly reason: string;
}

/** Returns the prices to save, and those that can't be saved. */
export function approvePrices(
  differences: readonly EndpointDifference[],
  options: ApprovalOptions,
): Approval {
  const prices: PriceConfig[] = [];
  const leftOut: LeftOut[] = [];
  for (const difference of differences) {
    const { model, provider, upstreamModel, pricing } = difference;
    const reason = reasonAgainst(difference, options);
    if (reason !== undefined) {
      leftOut.push({ model, provider, upstreamModel, reason });
    } else if (difference.prices.length > 0) {
      const upstream = hasSeveral(difference, options) ? { upstream_model: upstreamModel } : {};
      const { from, source: price_source } = options;
      prices.push({ model, provider, ...upstream, from, pricing, price_source });
    }
  }
  return { prices, leftOut };
}

function reasonAgainst(
  { prices, problems, ...endpoint }: EndpointDifference,
  { listed, isForced }: ApprovalOptions,
): string | undefined {
  if (problems.length > 0) return `has a price that can't be used: ${problems.join('; ')}`;
  if (prices.length === 0) return undefined;
  const inForce = listed.find((price) => price.state === 'in_force' && isOf(price, endpoint));
  if (inForce?.owner === 'file') return `is set in ${inForce.source}; change it there`;
  const large = prices.filter(({ isLarge }) => isLarge).map(({ name }) => name);
  if (large.length === 0 || isForced) return undefined;
  const names = [...new Set(large)].join(', ');
  return `changes ${names} so much that it may be a mistake; add --force to apply it`;
}

function isOf(price: PriceObject, { model, provider, upstreamModel }: EndpointId): boolean {
  return (
    price.model === model && price.provider === provider && price.upstream_model === upstreamModel
  );
}

/** Returns whether the model has several endpoints at the provider. */
function hasSeveral(id: EndpointId, { listed }: ApprovalOptions): boolean {
  return listed.some(
    (price) =>
      isOf(price, { ...id, upstreamModel: price.upstream_model }) &&
      price.upstream_model !== id.upstreamModel,
  );
}

/** Saves all prices in one transaction. Throws 400, 409. */
export async function savePrices(
  deps: ConfigServiceDeps,
  prices: readonly PriceConfig[],
): Promise<void> {
  for (const price of prices)
    requireFutureStart({ kind: 'price', name: priceName({ ...price }) }, deps.now());
  await importConfig(deps, { prices }, { replace: false, dryRun: false, variables: {} });
}

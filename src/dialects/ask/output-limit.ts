import { Type } from 'typebox';
import type { Target } from '../dialect.ts';

/** Far above any model's limit; it only keeps absurd numbers out of the arithmetic. */
export const outputLimitSchema = Type.Integer({ minimum: 1, maximum: 100_000_000 });

/**
 * The output cap to send; null if there is none. It is lowered to the model's own limit: clients
 * that do not know a model ask for more, and would be refused.
 */
export function outputLimit(asked: number | null, target: Target): number | null {
  const { outputTokensMax: affordable, modelOutputTokensMax: most } = target;
  const wanted = affordable ?? asked;
  return wanted === null || most === null ? wanted : Math.min(wanted, most);
}

/**
 * What a vendor charges more for than its usual price of a token. An endpoint has one price, so
 * nobody asks for these with the operator's account; those who call with their own pay for them.
 */
import type { Target } from '../dialect.ts';
import type { Edits } from './edit-body.ts';

type Payer = Pick<Target, 'isOwnAccount'>;

/** Fields, and those of their values that cost more than the endpoint does. */
export const dearer: ReadonlyMap<string, ReadonlySet<unknown>> = new Map([
  ['service_tier', new Set(['priority', 'fast', 'performance'])],
  ['speed', new Set(['fast'])],
]);

/** The names of what was left out, beside what is left out already. */
export function leaveOutPricedApart(
  body: Readonly<Record<string, unknown>>,
  { isOwnAccount }: Payer,
  edits: Edits,
): readonly string[] {
  if (isOwnAccount) return [];
  const dropped: string[] = [];
  for (const [name, values] of dearer) {
    if (!values.has(body[name]) || name in edits) continue;
    edits[name] = undefined;
    dropped.push(name);
  }
  return dropped;
}

interface KeptTools<Tool> {
  readonly tools: readonly Tool[];
  /** As `tools[2]`. */
  readonly dropped: readonly string[];
}

/** Tools by which the vendor asks another model, at that model's price, whoever may use it. */
export function withoutAdvisors<Tool extends { readonly type?: string | null }>(
  tools: readonly Tool[],
  { isOwnAccount }: Payer,
): KeptTools<Tool> {
  const isAdvisor = ({ type }: Tool) => !isOwnAccount && type?.startsWith('advisor');
  return {
    tools: tools.filter((tool) => !isAdvisor(tool)),
    dropped: tools.flatMap((tool, at) => (isAdvisor(tool) ? [`tools[${at}]`] : [])),
  };
}

/**
 * What a vendor charges for beside its usual price of a token. An endpoint has one price, so nobody
 * asks for these with the operator's account; those who call with their own pay for them.
 */
import { fieldsOf, isText, textOf } from '../../../core/json.ts';
import type { Target } from '../../dialect.ts';
import type { Edits } from '../body/edit-body.ts';
import { leaveOutServerWords } from './server-words.ts';

type Payer = Pick<Target, 'isOwnAccount' | 'outputModalities' | 'quirks'>;
type IsDear = (value: unknown, payer: Payer) => boolean;

const whenSet: IsDear = (value) => (value ?? false) !== false;
/** Sounds cost many times what words do; of a model that is said to speak, the price is theirs. */
const unlessSold = (isDear: IsDear): IsDear => {
  return (value, payer) => isDear(value, payer) && !payer.outputModalities?.includes('audio');
};

/** What OpenAI, Anthropic, Groq and Amazon call the tiers that cost the usual, or less. */
const usualTiers: ReadonlySet<unknown> = new Set([
  ...['auto', 'default', 'flex', 'scale', 'standard', 'standard_only', 'batch'],
  ...['on_demand', 'reserved'],
]);

/** Fields, and which of their values cost more than the endpoint does. */
export const dearer: ReadonlyMap<string, IsDear> = new Map<string, IsDear>([
  // Their list grows: what is not known to cost the usual may cost anything.
  ['service_tier', (value) => isText(value) && !usualTiers.has(value)],
  ['speed', (value) => value === 'fast'],
  // Searches by the vendor, at a price for each: xAI, Alibaba, Baidu. Models that understand
  // `web_search_options` search without it too: their `request` price covers that.
  ['search_parameters', whenSet],
  ['enable_search', whenSet],
  ['web_search', whenSet],
  // Another model may answer, at its own price: Anthropic and LiteLLM, OpenRouter.
  ['fallbacks', whenSet],
  ['preset', whenSet],
  // The answer would be fetched later, and nobody here would ever see what it used.
  ['deferred', whenSet],
  // A machine to run programs on, with the skills that are installed there.
  ['container', whenSet],
  ['modalities', unlessSold((value) => Array.isArray(value) && value.includes('audio'))],
  ['audio', unlessSold(whenSet)],
]);

function getsAll({ isOwnAccount, quirks }: Payer): boolean {
  return isOwnAccount === true || quirks.priced_apart === 'keep';
}

/**
 * The names of what was left out, beside what is left out already. A server of the operator's own
 * may cost nothing, and still obeys no tenant.
 */
export function leaveOutPricedApart(
  body: Readonly<Record<string, unknown>>,
  payer: Payer,
  edits: Edits,
): readonly string[] {
  const dropped = payer.isOwnAccount ? [] : leaveOutServerWords(body, edits);
  if (getsAll(payer)) return dropped;
  for (const [name, isDear] of dearer) {
    if (!(name in body) || name in edits || !isDear(body[name], payer)) continue;
    edits[name] = undefined;
    dropped.push(name);
  }
  return dropped;
}

/** How the types begin of tools that vendors run, and charge for by the call, hour or picture. */
const paidTools = [
  'advisor',
  'browser_search',
  'code_execution',
  'code_interpreter',
  'collections_search',
  'file_search',
  'image_generation',
  'web_search',
  'x_search',
];
/** Or they have the vendor's name before their own: `openrouter:web_search`. */
const paidTool = new RegExp(`^(?:[a-z]+:|${paidTools.join('|')})`);

function isPaid(tool: object): boolean {
  const { type, environment } = fieldsOf(tool);
  // Where a client does not run its own shell, the vendor rents out a machine for it.
  const isRented = textOf(fieldsOf(environment).type).startsWith('container');
  return typeof type === 'string' && (isRented || paidTool.test(type));
}

interface KeptTools<Tool> {
  readonly tools: readonly Tool[];
  readonly lost: readonly Tool[];
  /** As `tools[2]`. */
  readonly dropped: readonly string[];
}

/** Without those that cost more than the endpoint says. */
export function withoutPaidTools<Tool extends object>(
  tools: readonly Tool[],
  payer: Payer,
  path = 'tools',
): KeptTools<Tool> {
  const lost = getsAll(payer) ? [] : tools.filter(isPaid);
  if (lost.length === 0) return { tools, lost, dropped: [] };
  return {
    tools: tools.filter((tool) => !isPaid(tool)),
    lost,
    dropped: tools.flatMap((tool, at) => (isPaid(tool) ? [`${path}[${at}]`] : [])),
  };
}

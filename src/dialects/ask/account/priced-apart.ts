/**
 * Leaves out what a vendor charges for beside its usual price of a token. An endpoint has only that
 * price, so this is not asked for with the operator's account, but tenants may with their own.
 */
import { fieldsOf, isText, textOf } from '../../../core/json.ts';
import type { Target } from '../../dialect.ts';
import type { Edits } from '../body/edit-body.ts';
import { leaveOutServerWords } from './server-words.ts';

type Payer = Pick<Target, 'isOwnAccount' | 'outputModalities' | 'quirks'>;
type IsDear = (value: unknown, payer: Payer) => boolean;

const whenSet: IsDear = (value) => (value ?? false) !== false;
/** Sounds cost many times what words do; only a model listed with audio is priced for them. */
const unlessSold = (isDear: IsDear): IsDear => {
  return (value, payer) => isDear(value, payer) && !payer.outputModalities?.includes('audio');
};

/** Tiers of OpenAI, Anthropic, Groq and Amazon that cost the usual price or less. */
const usualTiers: ReadonlySet<unknown> = new Set([
  ...['auto', 'default', 'flex', 'scale', 'standard', 'standard_only', 'batch'],
  ...['on_demand', 'reserved'],
]);

/** Fields, and which of their values cost more than the endpoint's price. */
export const dearer: ReadonlyMap<string, IsDear> = new Map<string, IsDear>([
  // Vendors add tiers: an unknown one may cost anything.
  ['service_tier', (value) => isText(value) && !usualTiers.has(value)],
  ['speed', (value) => value === 'fast'],
  // Searches by the vendor, at a price for each: xAI, Alibaba, Baidu. Models that understand
  // `web_search_options` search without it too: their `request` price covers that.
  ['search_parameters', whenSet],
  ['enable_search', whenSet],
  ['web_search', whenSet],
  // With these, another model may answer at its own price: Anthropic and LiteLLM; OpenRouter.
  ['fallbacks', whenSet],
  ['preset', whenSet],
  // The client would fetch the answer later, and the gateway would never see its usage.
  ['deferred', whenSet],
  // A rented machine that runs programs, with the skills installed on it.
  ['container', whenSet],
  ['modalities', unlessSold((value) => Array.isArray(value) && value.includes('audio'))],
  ['audio', unlessSold(whenSet)],
]);

function getsAll({ isOwnAccount, quirks }: Payer): boolean {
  return isOwnAccount === true || quirks.priced_apart === 'keep';
}

/**
 * Returns the names of what it left out, except what was left out before. Server words go even
 * where nothing costs extra: an operator's own server must not obey tenants.
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

/** Beginnings of the types of tools that vendors run and charge for by call, hour or picture. */
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
/** A paid tool may also have the vendor's name in front: `openrouter:web_search`. */
const paidTool = new RegExp(`^(?:[a-z]+:|${paidTools.join('|')})`);

function isPaid(tool: object): boolean {
  const { type, environment } = fieldsOf(tool);
  // If the client does not run the shell itself, the vendor rents out a machine for it.
  const isRented = textOf(fieldsOf(environment).type).startsWith('container');
  return typeof type === 'string' && (isRented || paidTool.test(type));
}

interface KeptTools<Tool> {
  readonly tools: readonly Tool[];
  readonly lost: readonly Tool[];
  /** The paths of the tools that were left out, such as `tools[2]`. */
  readonly dropped: readonly string[];
}

/** Takes out the tools that cost more than the endpoint's price. */
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

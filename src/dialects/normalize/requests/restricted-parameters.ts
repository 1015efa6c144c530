import { fieldsOf, isNonEmptyString, textOf } from '../../../core/json.ts';
import type { Edits, Target } from '../../dialect.ts';

/**
 * Fields that the machines of an inference server use among themselves: vLLM, SGLang, TensorRT-LLM,
 * llama.cpp, LoRAX. Such a server trusts every caller, and the operator's credential is used for
 * every tenant. Tenants may send them to servers of their own.
 */

export const serverParameters: ReadonlySet<string> = new Set([
  // Which machine to call, whose memory to read, and where to write.
  'kv_transfer_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'bootstrap_pair_key',
  'disaggregated_params',
  'http_worker_ipc',
  // Which conversation to continue, by a request id on that server.
  'session_params',
  'request_id',
  'rid',
  'id_slot',
  // Scheduling: which request runs first and on which machine.
  'priority',
  'data_parallel_rank',
  'routed_dp_rank',
  'disagg_prefill_dp_rank',
  // Output beyond `max_tokens` and `n`: discarded tokens would not be counted.
  'n_predict',
  'auto_max_new_tokens',
  'best_of',
  // Programs to run, and weights other than the priced ones.
  'custom_logit_processor',
  'logits_processors',
  'lora_path',
  'adapter_id',
  'adapter_source',
]);

/**
 * Removes server parameters and returns their names. A null is removed without being named: the
 * body may have the field twice, and a server may read the first.
 */
export function dropServerParameters(
  body: Readonly<Record<string, unknown>>,
  edits: Edits,
): string[] {
  const dropped: string[] = [];
  for (const name in body) {
    if (!serverParameters.has(name)) continue;
    edits[name] = undefined;
    if (body[name] !== null) dropped.push(name);
  }
  return dropped;
}

/**
 * Removes what a vendor charges for in addition to its token price. An endpoint has only that
 * price, so these fields are removed for the operator's account and kept for a tenant's own.
 */

type BilledAccount = Pick<Target, 'isOwnAccount' | 'outputModalities' | 'quirks'>;
type IsSurcharged = (value: unknown, billedAccount: BilledAccount) => boolean;

const whenSet: IsSurcharged = (value) => (value ?? false) !== false;
/** Audio costs many times more than text. Only models listed with audio are priced for it. */
const unlessAudioModel = (isSurcharged: IsSurcharged): IsSurcharged => {
  return (value, billedAccount) =>
    isSurcharged(value, billedAccount) && !billedAccount.outputModalities?.includes('audio');
};

/** Tiers of OpenAI, Anthropic, Groq, and Amazon that don't cost more than the usual price. */
const standardTiers: ReadonlySet<unknown> = new Set([
  ...['auto', 'default', 'flex', 'scale', 'standard', 'standard_only', 'batch'],
  ...['on_demand', 'reserved'],
]);

/** Fields, and which of their values cost more than the endpoint's price. */
export const surchargedParameters: ReadonlyMap<string, IsSurcharged> = new Map<
  string,
  IsSurcharged
>([
  // Vendors add tiers, and an unknown one may have any price.
  ['service_tier', (value) => isNonEmptyString(value) && !standardTiers.has(value)],
  ['speed', (value) => value === 'fast'],
  // Searches by the vendor, priced per search: xAI, Alibaba, Baidu. Models that support
  // `web_search_options` search without it too, so their `request` price covers it.
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
  ['modalities', unlessAudioModel((value) => Array.isArray(value) && value.includes('audio'))],
  ['audio', unlessAudioModel(whenSet)],
]);

function allowsSurcharges({ isOwnAccount, quirks }: BilledAccount): boolean {
  return isOwnAccount === true || quirks.separately_priced === 'keep';
}

/**
 * Removes surcharged fields and returns the names of those not removed before. Server parameters
 * are removed even if nothing costs extra, because the operator's own server must not obey tenants.
 */
export function dropSurcharged(
  body: Readonly<Record<string, unknown>>,
  billedAccount: BilledAccount,
  edits: Edits,
): readonly string[] {
  const dropped = billedAccount.isOwnAccount ? [] : dropServerParameters(body, edits);
  if (allowsSurcharges(billedAccount)) return dropped;
  for (const [name, isSurcharged] of surchargedParameters) {
    if (!(name in body) || name in edits || !isSurcharged(body[name], billedAccount)) continue;
    edits[name] = undefined;
    dropped.push(name);
  }
  return dropped;
}

/** Prefixes of the types of tools that vendors run and charge for. */
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
/** A paid tool may also have the vendor's name as a prefix: `openrouter:web_search`. */
const paidTool = new RegExp(`^(?:[a-z]+:|${paidTools.join('|')})`);

function isPaid(tool: object): boolean {
  const { type, environment } = fieldsOf(tool);
  // If the client doesn't run the shell itself, the vendor rents out a machine for it.
  const isRented = textOf(fieldsOf(environment).type).startsWith('container');
  return typeof type === 'string' && (isRented || paidTool.test(type));
}

interface AllowedTools<Tool> {
  readonly tools: readonly Tool[];
  readonly removed: readonly Tool[];
  /** The paths of the removed tools, such as `tools[2]`. */
  readonly dropped: readonly string[];
}

/** Removes the tools that cost more than the endpoint's price. */
export function withoutPaidTools<Tool extends object>(
  tools: readonly Tool[],
  billedAccount: BilledAccount,
  path = 'tools',
): AllowedTools<Tool> {
  const removed = allowsSurcharges(billedAccount) ? [] : tools.filter(isPaid);
  if (removed.length === 0) return { tools, removed, dropped: [] };
  return {
    tools: tools.filter((tool) => !isPaid(tool)),
    removed,
    dropped: tools.flatMap((tool, index) => (isPaid(tool) ? [`${path}[${index}]`] : [])),
  };
}

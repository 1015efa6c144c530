import { fieldsOf, isNonEmptyString, textOf } from '../../../core/json.ts';
import type { Edits, Target } from '../../dialect.ts';

// Fields that control an inference server (vLLM, SGLang, TensorRT-LLM, llama.cpp, LoRAX) or that
// its machines send to each other. Such a server trusts every caller, and all tenants use the
// operator's credential, so tenants may send these fields only to their own servers.

export const serverParameters: ReadonlySet<string> = new Set([
  // Which machine to call, which cache to read, and where to write.
  'kv_transfer_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'bootstrap_pair_key',
  'disaggregated_params',
  'http_worker_ipc',
  // Which conversation to continue, identified by a request ID on that server.
  'session_params',
  'request_id',
  'rid',
  'id_slot',
  // Scheduling: which request runs first and on which machine.
  'priority',
  'data_parallel_rank',
  'routed_dp_rank',
  'disagg_prefill_dp_rank',
  // Output beyond `max_tokens` and `n`, and candidates that are generated and discarded without
  // being counted.
  'n_predict',
  'auto_max_new_tokens',
  'best_of',
  // Programs to run, and weights other than the priced ones.
  'custom_logit_processor',
  'logits_processors',
  'lora_path',
  'adapter_id',
  'adapter_source',
  // Options of SDKs, which a gateway behind the provider, such as LiteLLM, obeys: where to send the
  // request, with which credential, and with which other fields.
  'extra_body',
  'extra_headers',
  'extra_query',
  'api_key',
  'base_url',
  'api_base',
  'api_version',
  'custom_llm_provider',
  'user_config',
  'litellm_params',
]);

/**
 * Removes server parameters and returns their names. A null field is removed too, but its name
 * isn't returned: the body may contain the field twice, and a server may read the first value.
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

// Removes fields that make a vendor charge more than its token price. An endpoint has no other
// price, so these fields are removed if the operator's account is billed, and kept if the tenant's
// own account is billed.

type BilledAccount = Pick<Target, 'isOwnAccount' | 'outputModalities' | 'quirks'>;
type IsSurcharged = (value: unknown, billedAccount: BilledAccount) => boolean;

const whenSet: IsSurcharged = (value) => (value ?? false) !== false;
/**
 * Audio costs many times more than text. Only models that are listed with audio output have a price
 * for it.
 */
const unlessAudioModel = (isSurcharged: IsSurcharged): IsSurcharged => {
  return (value, billedAccount) =>
    isSurcharged(value, billedAccount) && !billedAccount.outputModalities?.includes('audio');
};

/** Service tiers of OpenAI, Anthropic, Groq, and Amazon that cost at most the usual price. */
const standardTiers: ReadonlySet<unknown> = new Set([
  ...['auto', 'default', 'flex', 'scale', 'standard', 'standard_only', 'batch'],
  ...['on_demand', 'reserved'],
]);

/**
 * Maps a field to a function that decides whether its value costs more than the endpoint's price.
 */
export const surchargedParameters: ReadonlyMap<string, IsSurcharged> = new Map<
  string,
  IsSurcharged
>([
  // Vendors add tiers, and an unknown one may have any price.
  ['service_tier', (value) => isNonEmptyString(value) && !standardTiers.has(value)],
  ['speed', (value) => value === 'fast'],
  // Searches by the vendor, priced per search: xAI, Alibaba, Baidu. Models that support
  // `web_search_options` search even without that field, so their `request` price covers the
  // searches.
  ['search_parameters', whenSet],
  ['enable_search', whenSet],
  ['web_search', whenSet],
  // With these, another model may answer at its own price: Anthropic and LiteLLM (`fallbacks`),
  // OpenRouter (`preset`).
  ['fallbacks', whenSet],
  ['preset', whenSet],
  // The client would fetch the answer later, and the gateway would never see its usage.
  ['deferred', whenSet],
  // A rented machine that runs programs, with the skills that are installed on it.
  ['container', whenSet],
  ['modalities', unlessAudioModel((value) => Array.isArray(value) && value.includes('audio'))],
  ['audio', unlessAudioModel(whenSet)],
]);

function allowsSurcharges({ isOwnAccount, quirks }: BilledAccount): boolean {
  return isOwnAccount === true || quirks.separately_priced === 'keep';
}

/**
 * Removes the fields that cost extra and that `edits` doesn't contain yet. Returns their names.
 * Server parameters are removed even if the endpoint keeps fields that cost extra, because tenants
 * must not control the operator's servers.
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
  // A shell tool with a container runs on a machine that the vendor charges for.
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

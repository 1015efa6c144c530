/**
 * Fields that the machines of an inference server use among themselves: vLLM, SGLang, TensorRT-LLM,
 * llama.cpp, LoRAX. Such a server trusts every caller, and with the operator's credential that is
 * every tenant. A tenant that calls a server of its own may send them.
 */
import type { Edits } from '../body/edit-body.ts';

export const serverWords: ReadonlySet<string> = new Set([
  // Which other machine to call, whose memory to read, and where to write.
  'kv_transfer_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'bootstrap_pair_key',
  'disaggregated_params',
  'http_worker_ipc',
  // Whose conversation to continue, by the ids of its requests on that server.
  'session_params',
  'request_id',
  'rid',
  'id_slot',
  // Which request comes first, and which machine does the work.
  'priority',
  'data_parallel_rank',
  'routed_dp_rank',
  'disagg_prefill_dp_rank',
  // How much to write regardless of `max_tokens` and `n`: discarded tokens would not be counted.
  'n_predict',
  'auto_max_new_tokens',
  'best_of',
  // Programs to run, and weights other than those that the price is for.
  'custom_logit_processor',
  'logits_processors',
  'lora_path',
  'adapter_id',
  'adapter_source',
]);

/**
 * Returns the names of what was left out. A null is left out, too, but not named: the body may have
 * the field twice, and a server may read the first one where we see the last.
 */
export function leaveOutServerWords(
  body: Readonly<Record<string, unknown>>,
  edits: Edits,
): string[] {
  const said: string[] = [];
  for (const name in body) {
    if (!serverWords.has(name)) continue;
    edits[name] = undefined;
    if (body[name] !== null) said.push(name);
  }
  return said;
}

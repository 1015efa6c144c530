/**
 * Words between the machines of an inference server: vLLM, SGLang, TensorRT-LLM, llama.cpp, LoRAX.
 * Such a server believes whoever calls it, and behind the operator's credential that is every
 * tenant. Those who call a server of their own may say them.
 */
import type { Edits } from '../body/edit-body.ts';

export const serverWords: ReadonlySet<string> = new Set([
  // Which neighbour to call, whose memory to read, and where to write.
  'kv_transfer_params',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'bootstrap_pair_key',
  'disaggregated_params',
  'http_worker_ipc',
  // Whose conversation to go on with, by the names that its requests have there.
  'session_params',
  'request_id',
  'rid',
  'id_slot',
  // Who comes first, and which machine it is that has the work.
  'priority',
  'data_parallel_rank',
  'routed_dp_rank',
  'disagg_prefill_dp_rank',
  // How much to write, whatever `max_tokens` and `n` say: nobody counts what is thrown away.
  'n_predict',
  'auto_max_new_tokens',
  'best_of',
  // Programs to run, and other weights than those that have a price.
  'custom_logit_processor',
  'logits_processors',
  'lora_path',
  'adapter_id',
  'adapter_source',
]);

/**
 * Answers the names of what was left out. A null is left out, too, but not named: the body may have
 * the name twice, and while we see the last of them, a server may read the first.
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

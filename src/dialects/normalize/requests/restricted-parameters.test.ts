import { expect, test } from 'bun:test';
import type { Edits } from '../../dialect.ts';
import { dropServerParameters } from './restricted-parameters.ts';

test.each([
  ...['kv_transfer_params', 'bootstrap_host', 'bootstrap_port', 'bootstrap_room'],
  ...['bootstrap_pair_key', 'disaggregated_params', 'http_worker_ipc', 'session_params'],
  ...['request_id', 'rid', 'id_slot', 'priority', 'data_parallel_rank', 'routed_dp_rank'],
  ...['disagg_prefill_dp_rank', 'n_predict', 'auto_max_new_tokens', 'custom_logit_processor'],
  ...['best_of', 'logits_processors', 'lora_path', 'adapter_id', 'adapter_source'],
  ...['extra_body', 'extra_headers', 'extra_query', 'api_key', 'base_url', 'api_base'],
  ...['api_version', 'custom_llm_provider', 'user_config', 'litellm_params'],
])("dropServerParameters removes %s for the operator's account", (name) => {
  const edits: Edits = {};
  expect(dropServerParameters({ model: 'a', [name]: 1, seed: 2 }, edits)).toEqual([name]);
  expect(Object.entries(edits)).toEqual([[name, undefined]]);
});

test('dropServerParameters removes a null field without reporting it', () => {
  const edits: Edits = {};
  expect(dropServerParameters({ rid: null }, edits)).toEqual([]);
  expect(Object.entries(edits)).toEqual([['rid', undefined]]);
});

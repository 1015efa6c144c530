/** Writes an answer in each upstream dialect's format, to test that clients get the same answer. */
import { type FullResponse, streamOf } from './response-events.ts';

export interface AnswerContent {
  readonly reasoning?: string;
  /** The signature of the reasoning, if the dialect has one. */
  readonly signature?: string;
  readonly text?: string;
  readonly refusal?: string;
  readonly calls?: readonly { readonly id: string; readonly name: string; readonly json: string }[];
  readonly isTruncated?: boolean;
}

/** The usage that all upstreams report. */
const reportedUsage = { input: 100, cached: 40, output: 20 };

const { input, cached, output } = reportedUsage;
const data = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
const named = (type: string, fields: object) => `event: ${type}\n${data({ type, ...fields })}`;
const halves = (text: string) => [text.slice(0, text.length >> 1), text.slice(text.length >> 1)];

function openai({ reasoning, text, refusal, calls = [], isTruncated }: AnswerContent): string {
  const names = { id: 'chatcmpl-up', object: 'chat.completion.chunk', created: 1, model: 'up-1' };
  const chunk = (delta: object, finish_reason: string | null = null) =>
    data({ ...names, choices: [{ index: 0, delta, finish_reason }] });
  const callChunks = calls.map(({ id, name }, index) =>
    chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
  );
  // As on several servers, the argument pieces of all calls alternate.
  const argumentChunks = [0, 1].flatMap((half) =>
    calls.map(({ json }, index) =>
      chunk({ tool_calls: [{ index, function: { arguments: halves(json)[half] } }] }),
    ),
  );
  const reason = isTruncated ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop';
  const usage = {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
  return [
    chunk({ role: 'assistant', content: '' }),
    ...(reasoning ? halves(reasoning).map((piece) => chunk({ reasoning_content: piece })) : []),
    ...(text ? halves(text).map((piece) => chunk({ content: piece })) : []),
    ...(refusal ? [chunk({ refusal })] : []),
    ...callChunks,
    ...argumentChunks,
    chunk({}, reason),
    data({ ...names, choices: [], usage }),
    'data: [DONE]\n\n',
  ].join('');
}

function anthropic({
  reasoning,
  signature,
  text,
  refusal,
  calls = [],
  isTruncated,
}: AnswerContent): string {
  const blocks: [object, object[]][] = [];
  if (reasoning) {
    const deltas = halves(reasoning).map((piece) => ({ type: 'thinking_delta', thinking: piece }));
    const signed = { type: 'signature_delta', signature: signature };
    blocks.push([{ type: 'thinking', thinking: '', signature: '' }, [...deltas, signed]]);
  }
  if (text) {
    const deltas = halves(text).map((piece) => ({ type: 'text_delta', text: piece }));
    blocks.push([{ type: 'text', text: '' }, deltas]);
  }
  for (const { id, name, json } of calls) {
    const deltas = halves(json).map((piece) => ({ type: 'input_json_delta', partial_json: piece }));
    blocks.push([{ type: 'tool_use', id, name, input: {} }, deltas]);
  }
  const usage = {
    input_tokens: input - cached,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
    output_tokens: 1,
  };
  const message = { id: 'msg_up', type: 'message', role: 'assistant', model: 'up-1', content: [] };
  const plain = calls.length > 0 ? 'tool_use' : 'end_turn';
  const stop_reason = refusal ? 'refusal' : isTruncated ? 'max_tokens' : plain;
  return [
    named('message_start', { message: { ...message, stop_reason: null, usage } }),
    ...blocks.flatMap(([content_block, deltas], index) => [
      named('content_block_start', { index, content_block }),
      ...deltas.map((delta) => named('content_block_delta', { index, delta })),
      named('content_block_stop', { index }),
    ]),
    named('message_delta', {
      delta: { stop_reason, stop_sequence: null },
      usage: { output_tokens: output },
    }),
    named('message_stop', {}),
  ].join('');
}

function gemini({
  reasoning,
  signature,
  text,
  refusal,
  calls = [],
  isTruncated,
}: AnswerContent): string {
  const chunk = (parts: object[], finishReason?: string) =>
    data({
      responseId: 'resp-up',
      modelVersion: 'up-1',
      candidates: [{ index: 0, content: { role: 'model', parts }, finishReason }],
      usageMetadata: {
        promptTokenCount: input,
        cachedContentTokenCount: cached,
        candidatesTokenCount: output,
        totalTokenCount: input + output,
      },
    });
  const finish = refusal ? 'SAFETY' : isTruncated ? 'MAX_TOKENS' : 'STOP';
  return [
    ...(reasoning ? halves(reasoning).map((piece) => chunk([{ text: piece, thought: true }])) : []),
    ...(text ? halves(text).map((piece) => chunk([{ text: piece }])) : []),
    ...calls.map(({ id, name, json }, index) => {
      const functionCall = { id, name, args: JSON.parse(json) as object };
      return chunk([
        { functionCall, ...(index === 0 && signature ? { thoughtSignature: signature } : {}) },
      ]);
    }),
    chunk([], finish),
  ].join('');
}

function responses(answer: AnswerContent): string {
  const { reasoning, signature, text, refusal, calls = [], isTruncated } = answer;
  const parts = [
    ...(text ? [{ type: 'output_text', text, annotations: [] }] : []),
    ...(refusal ? [{ type: 'refusal', refusal }] : []),
  ];
  const summary = reasoning ? [{ type: 'summary_text', text: reasoning }] : [];
  const items = [
    ...(reasoning
      ? [{ type: 'reasoning', id: 'rs_up', summary, encrypted_content: signature }]
      : []),
    ...(parts.length > 0
      ? [{ type: 'message', id: 'msg_up', role: 'assistant', content: parts }]
      : []),
    ...calls.map(({ id, name, json }, index) => ({
      type: 'function_call',
      id: `fc_up${index}`,
      call_id: id,
      name,
      arguments: json,
    })),
  ];
  const response = {
    id: 'resp_up',
    object: 'response',
    created_at: 1,
    model: 'up-1',
    status: isTruncated ? 'incomplete' : 'completed',
    error: null,
    incomplete_details: isTruncated ? { reason: 'max_output_tokens' } : null,
    output: items,
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    },
  };
  return streamOf(response as unknown as FullResponse);
}

export const streamFormats = { openai, anthropic, gemini, responses };
export type StreamFormatName = keyof typeof streamFormats;

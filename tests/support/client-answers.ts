/** Parses the bytes of answers, as clients do. */
import { check, fieldsOf, framesOf, parseData } from './stream-checks/events.ts';
import { checkAnthropicStream, checkOpenAiStream, checkResponsesStream } from './stream-checks.ts';

export interface ClientAnswer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { id: string; name: string; arguments: string }[];
  readonly images: number;
  readonly finish: string | null;
  /** The usage in the client's format. */
  readonly usage: unknown;
}

export function readOpenAiAnswer(output: string, isStream: boolean): ClientAnswer {
  return isStream ? readOpenAiStream(output) : readOpenAiReply(output);
}

function readOpenAiStream(output: string): ClientAnswer {
  const { ended, text, reasoning, tools, finishReason, usage } = checkOpenAiStream(output);
  if (ended !== 'complete') throw new Error(`The stream is ${ended}.`);
  const calls = tools.map(({ id, name, json }) => ({ id, name, arguments: json }));
  const images = output.match(/"images":\[\{/g)?.length ?? 0;
  return { text, reasoning, calls, images, finish: finishReason, usage };
}

interface OpenAiReply {
  readonly choices: readonly [
    {
      readonly message: {
        readonly content: string | null;
        readonly reasoning?: string;
        readonly images?: readonly unknown[];
        readonly tool_calls?: readonly {
          readonly id: string;
          readonly function: { readonly name: string; readonly arguments: string };
        }[];
      };
      readonly finish_reason: string | null;
    },
  ];
  readonly usage: unknown;
}

function readOpenAiReply(output: string): ClientAnswer {
  const { choices, usage } = JSON.parse(output) as OpenAiReply;
  const [{ message, finish_reason: finish }] = choices;
  return {
    text: message.content ?? '',
    reasoning: message.reasoning ?? '',
    calls: (message.tool_calls ?? []).map((call) => ({ id: call.id, ...call.function })),
    images: message.images?.length ?? 0,
    finish,
    usage,
  };
}

export function readAnthropicAnswer(output: string, isStream: boolean): ClientAnswer {
  return isStream ? readAnthropicStream(output) : readAnthropicMessage(output);
}

function readAnthropicStream(output: string): ClientAnswer {
  const { ended, text, thinking, tools, blocks, stopReason, usage } = checkAnthropicStream(output);
  if (ended !== 'complete') throw new Error(`The stream is ${ended}.`);
  const calls = tools.map(({ id, name, input }) => ({
    id,
    name,
    arguments: JSON.stringify(input),
  }));
  const images = blocks.filter((type) => type === 'image').length;
  return { text, reasoning: thinking, calls, images, finish: stopReason, usage };
}

interface AnthropicBlock {
  readonly type: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
}

interface AnthropicMessage {
  readonly content: readonly AnthropicBlock[];
  readonly stop_reason: string | null;
  readonly usage: unknown;
}

function readAnthropicMessage(output: string): ClientAnswer {
  const message = JSON.parse(output) as AnthropicMessage;
  const ofType = (blockType: string) => message.content.filter(({ type }) => type === blockType);
  return {
    text: ofType('text')
      .map(({ text }) => text)
      .join(''),
    reasoning: ofType('thinking')
      .map(({ thinking }) => thinking)
      .join(''),
    calls: ofType('tool_use').map(({ id = '', name = '', input }) => ({
      id,
      name,
      arguments: JSON.stringify(input),
    })),
    images: ofType('image').length,
    finish: message.stop_reason,
    usage: message.usage,
  };
}

interface ResponsesItem {
  readonly type: string;
  readonly call_id?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly summary?: readonly { readonly text: string }[];
  readonly content?: readonly { readonly type: string; readonly text?: string }[];
}

interface FullResponse {
  readonly status: string;
  readonly incomplete_details: { readonly reason: string } | null;
  readonly output: readonly ResponsesItem[];
  readonly usage: unknown;
}

/** Converts a response's status and items to a chat finish reason. */
export function readResponsesAnswer(output: string, isStream: boolean): ClientAnswer {
  if (!isStream) return readFullResponse(JSON.parse(output) as FullResponse);
  const { ended, response } = checkResponsesStream(output);
  if (ended !== 'complete') throw new Error(`The stream is ${ended}.`);
  return readFullResponse(response as unknown as FullResponse);
}

/**
 * Reads a stream that was forwarded unchanged. Events and items of unknown types are allowed.
 * Sequence numbers must have no gaps, and the last event must contain the full response.
 */
export function readForwardedResponse(output: string): ClientAnswer {
  const events = framesOf(output).map(({ data }) => parseData(data));
  for (const [index, { sequence_number: number }] of events.entries()) {
    check(number === index, `event ${index} has the sequence number ${String(number)}`);
  }
  return readFullResponse(fieldsOf(events.at(-1)?.response, 'response') as unknown as FullResponse);
}

function readFullResponse(response: FullResponse): ClientAnswer {
  const { status, incomplete_details: details, output, usage } = response;
  const calls = output.filter(({ type }) => type === 'function_call');
  const texts = output.flatMap(({ type, content = [] }) => (type === 'message' ? content : []));
  // Each summary is a paragraph of the reasoning.
  const reasoning = output.flatMap(({ type, summary = [], content = [] }) => {
    if (type !== 'reasoning') return [];
    const parts = summary.length > 0 ? summary : content;
    return [parts.map(({ text = '' }) => text).join('\n\n')];
  });
  const completed = calls.length > 0 ? 'tool_calls' : 'stop';
  const incomplete = details?.reason === 'max_output_tokens' ? 'length' : (details?.reason ?? null);
  return {
    text: texts.map(({ text = '' }) => text).join(''),
    reasoning: reasoning.join(''),
    calls: calls.map((call) => ({
      id: call.call_id ?? '',
      name: call.name ?? '',
      arguments: call.arguments ?? '',
    })),
    images: output.filter(({ type }) => type === 'image_generation_call').length,
    finish: status === 'completed' ? completed : incomplete,
    usage,
  };
}

/** Reads answers as clients do, from the bytes that they get. */
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
  return isStream ? seeOpenAiStream(output) : seeOpenAiReply(output);
}

function seeOpenAiStream(output: string): ClientAnswer {
  const { ended, text, reasoning, tools, finishReason, usage } = checkOpenAiStream(output);
  if (ended !== 'complete') throw new Error(`the stream is ${ended}`);
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

function seeOpenAiReply(output: string): ClientAnswer {
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
  return isStream ? seeAnthropicStream(output) : seeAnthropicMessage(output);
}

function seeAnthropicStream(output: string): ClientAnswer {
  const { ended, text, thinking, tools, blocks, stopReason, usage } = checkAnthropicStream(output);
  if (ended !== 'complete') throw new Error(`the stream is ${ended}`);
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

function seeAnthropicMessage(output: string): ClientAnswer {
  const message = JSON.parse(output) as AnthropicMessage;
  const ofType = (wanted: string) => message.content.filter(({ type }) => type === wanted);
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

interface WholeResponse {
  readonly status: string;
  readonly incomplete_details: { readonly reason: string } | null;
  readonly output: readonly ResponsesItem[];
  readonly usage: unknown;
}

/**
 * A response shows by its status and items why it ended; here that becomes a finish reason of
 * chats.
 */
export function readResponsesAnswer(output: string, isStream: boolean): ClientAnswer {
  if (!isStream) return seeResponse(JSON.parse(output) as WholeResponse);
  const { ended, response } = checkResponsesStream(output);
  if (ended !== 'complete') throw new Error(`the stream is ${ended}`);
  return seeResponse(response as unknown as WholeResponse);
}

/**
 * Reads a stream that passed through unchanged. Its events and items may be of kinds that only the
 * upstream knows; they are numbered without gaps, and the last event holds everything.
 */
export function readForwardedResponse(output: string): ClientAnswer {
  const events = framesOf(output).map(({ data }) => parseData(data));
  for (const [at, { sequence_number: number }] of events.entries()) {
    check(number === at, `event ${at} is number ${String(number)}`);
  }
  return seeResponse(fieldsOf(events.at(-1)?.response, 'response') as unknown as WholeResponse);
}

function seeResponse(response: WholeResponse): ClientAnswer {
  const { status, incomplete_details: details, output, usage } = response;
  const calls = output.filter(({ type }) => type === 'function_call');
  const texts = output.flatMap(({ type, content = [] }) => (type === 'message' ? content : []));
  // Each summary of a thought is one paragraph of it.
  const thoughts = output.flatMap(({ type, summary = [], content = [] }) => {
    if (type !== 'reasoning') return [];
    const parts = summary.length > 0 ? summary : content;
    return [parts.map(({ text = '' }) => text).join('\n\n')];
  });
  const whole = calls.length > 0 ? 'tool_calls' : 'stop';
  const cut = details?.reason === 'max_output_tokens' ? 'length' : (details?.reason ?? null);
  return {
    text: texts.map(({ text = '' }) => text).join(''),
    reasoning: thoughts.join(''),
    calls: calls.map((call) => ({
      id: call.call_id ?? '',
      name: call.name ?? '',
      arguments: call.arguments ?? '',
    })),
    images: output.filter(({ type }) => type === 'image_generation_call').length,
    finish: status === 'completed' ? whole : cut,
    usage,
  };
}

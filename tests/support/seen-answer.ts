/** What clients see of an answer, read from the bytes that they would get. */
import { checkAnthropicStream, checkOpenAiStream } from './stream-checks.ts';

export interface SeenAnswer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { id: string; name: string; arguments: string }[];
  readonly images: number;
  readonly finish: string | null;
}

export function seeOpenAi(output: string, isStream: boolean): SeenAnswer {
  return isStream ? seeOpenAiStream(output) : seeOpenAiReply(output);
}

function seeOpenAiStream(output: string): SeenAnswer {
  const { ended, text, reasoning, tools, finishReason } = checkOpenAiStream(output);
  if (ended !== 'whole') throw new Error(`the stream is ${ended}`);
  const calls = tools.map(({ id, name, json }) => ({ id, name, arguments: json }));
  const images = output.match(/"images":\[\{/g)?.length ?? 0;
  return { text, reasoning, calls, images, finish: finishReason };
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
}

function seeOpenAiReply(output: string): SeenAnswer {
  const [{ message, finish_reason: finish }] = (JSON.parse(output) as OpenAiReply).choices;
  return {
    text: message.content ?? '',
    reasoning: message.reasoning ?? '',
    calls: (message.tool_calls ?? []).map((call) => ({ id: call.id, ...call.function })),
    images: message.images?.length ?? 0,
    finish,
  };
}

export function seeAnthropic(output: string, isStream: boolean): SeenAnswer {
  return isStream ? seeAnthropicStream(output) : seeAnthropicMessage(output);
}

function seeAnthropicStream(output: string): SeenAnswer {
  const { ended, text, thinking, tools, blocks, stopReason } = checkAnthropicStream(output);
  if (ended !== 'whole') throw new Error(`the stream is ${ended}`);
  const calls = tools.map(({ id, name, input }) => ({
    id,
    name,
    arguments: JSON.stringify(input),
  }));
  const images = blocks.filter((type) => type === 'image').length;
  return { text, reasoning: thinking, calls, images, finish: stopReason };
}

interface AnthropicBlock {
  readonly type: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
}

function seeAnthropicMessage(output: string): SeenAnswer {
  const message = JSON.parse(output) as { content: AnthropicBlock[]; stop_reason: string | null };
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
  };
}

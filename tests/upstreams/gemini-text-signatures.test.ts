/**
 * Gemini may sign its text in a part that contains only the signature. A chat client receives the
 * signature and sends it back to Gemini. A Messages client receives it only before a tool call,
 * because such a client treats the last block as the answer.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { checkAnthropicStream, checkOpenAiStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    providers: { google: { dialect: 'gemini', base_url: upstream.url, api_key: 'key' } },
    models: [chatModel('acme/gemini', [{ provider: 'google', model: 'gemini-3-pro' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 };
const chunk = (parts: readonly object[], finishReason?: string) => ({
  candidates: [{ content: { role: 'model', parts }, finishReason, index: 0 }],
  usageMetadata,
});
const textPart = { text: 'Hi' };
const signature = { thoughtSignature: 'c2lnbmVk' };

/** Answers with the signature at different positions. */
const answers = {
  'a stream': { chunks: [chunk([textPart]), chunk([signature]), chunk([], 'STOP')], stream: true },
  'the last chunk of a stream': {
    chunks: [chunk([textPart]), chunk([signature], 'STOP')],
    stream: true,
  },
  'a chunk after the end': {
    chunks: [chunk([textPart], 'STOP'), chunk([{ text: '', ...signature }], 'STOP')],
    stream: true,
  },
  'a non-streaming answer': { chunks: [chunk([textPart, signature], 'STOP')], stream: false },
} as const;

const question = { role: 'user', content: 'Hello!' };

function script({ chunks, stream }: (typeof answers)[keyof typeof answers]): void {
  const events = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`).join('');
  const contentType = stream ? 'text/event-stream' : 'application/json';
  const bytes = stream ? events : JSON.stringify(chunks[0]);
  upstream.script('*', replay(bytes, { contentType, piece: 'byte by byte' }));
}

interface SentBody {
  readonly contents: readonly { readonly role: string; readonly parts: readonly object[] }[];
}

/** Returns the parts of the model's turn in the last request. */
function partsSent(): unknown {
  const sent = upstream.requests.at(-1)?.json as SentBody | undefined;
  return sent?.contents.find(({ role }) => role === 'model')?.parts;
}

const signedText = [{ text: 'Hi' }, { text: '', thoughtSignature: 'c2lnbmVk' }];

function chatTurn(text: string, isStream: boolean): object {
  if (!isStream) return JSON.parse(text).choices[0].message;
  const { text: content, details } = checkOpenAiStream(text);
  return { role: 'assistant', content, reasoning_details: details };
}

function typesIn(reply: string): string[] {
  const { content } = JSON.parse(reply) as { content: readonly { type: string }[] };
  return content.map(({ type }) => type);
}

describe.each(Object.entries(answers))('a Gemini text signature in %s', (_, answer) => {
  const { stream } = answer;
  const request = { model: 'acme/gemini', max_tokens: 50 };

  test('returns to Gemini through a chat client', async () => {
    script(answer);
    const first = await gateway.post({ ...request, messages: [question], stream });
    const messages = [question, chatTurn(first.text, stream), question];
    await gateway.post({ ...request, messages });
    expect(partsSent()).toEqual(signedText);
  });

  test('is not sent to a Messages client after the text', async () => {
    script(answer);
    const path = '/v1/messages';
    const { text } = await gateway.post({ ...request, messages: [question], stream }, { path });
    const types = stream ? checkAnthropicStream(text).blocks : typesIn(text);
    expect(types).toEqual(['text']);
  });
});

/**
 * Gemini may sign what it said in a part that holds the signature and nothing else. A chat client
 * gets it like any other, and what it sends back brings it to Gemini again. A Messages client gets
 * it only in front of a call: it takes the last block of an answer for the answer.
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
const said = { text: 'Hi' };
const bare = { thoughtSignature: 'c2lnbmVk' };

/** Streamed or whole, before the end and with it. */
const answers = {
  'a stream': { chunks: [chunk([said]), chunk([bare]), chunk([], 'STOP')], stream: true },
  'the last chunk': { chunks: [chunk([said]), chunk([bare], 'STOP')], stream: true },
  'a chunk behind the end': {
    chunks: [chunk([said], 'STOP'), chunk([{ text: '', ...bare }], 'STOP')],
    stream: true,
  },
  'a whole answer': { chunks: [chunk([said, bare], 'STOP')], stream: false },
} as const;

const question = { role: 'user', content: 'Hello!' };

function script({ chunks, stream }: (typeof answers)[keyof typeof answers]): void {
  const events = chunks.map((each) => `data: ${JSON.stringify(each)}\r\n\r\n`).join('');
  const contentType = stream ? 'text/event-stream' : 'application/json';
  const bytes = stream ? events : JSON.stringify(chunks[0]);
  upstream.script('*', replay(bytes, { contentType, piece: 'byte by byte' }));
}

interface Sent {
  readonly contents: readonly { readonly role: string; readonly parts: readonly object[] }[];
}

/** The parts of the model's turn in the last request. */
function partsSent(): unknown {
  const sent = upstream.requests.at(-1)?.json as Sent | undefined;
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

describe.each(Object.entries(answers))('in %s', (_, answer) => {
  const { stream } = answer;
  const asked = { model: 'acme/gemini', max_tokens: 50 };

  test('comes back through chat', async () => {
    script(answer);
    const first = await gateway.post({ ...asked, messages: [question], stream });
    const messages = [question, chatTurn(first.text, stream), question];
    await gateway.post({ ...asked, messages });
    expect(partsSent()).toEqual(signedText);
  });

  test('does not follow the words of a message', async () => {
    script(answer);
    const path = '/v1/messages';
    const { text } = await gateway.post({ ...asked, messages: [question], stream }, { path });
    const types = stream ? checkAnthropicStream(text).blocks : typesIn(text);
    expect(types).toEqual(['text']);
  });
});

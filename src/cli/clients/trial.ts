import { fieldsOf, objectsIn, parseJson, textOf } from '../../core/json.ts';
import { askGateway } from '../own-address.ts';
import type { Client } from './index.ts';
import type { Gaps } from './settings.ts';

/** One small question to a running gateway, asked the way a client asks. */

export interface Trial {
  readonly request_id: string;
  readonly answer: string;
  /** Null if the answer does not say what it cost. */
  readonly cost: number | null;
}

/** A model may think for a while before it says hello. */
const patienceMs = 60_000;
const question = 'Say hello in one short sentence.';
const messages = [{ role: 'user', content: question }];
/** Enough for a model that thinks before it answers. */
const outputTokens = 512;
/** Characters of the answer that are shown: enough to recognise it as an answer. */
const shownMax = 80;

interface Dialect {
  headers(key: string): Readonly<Record<string, string>>;
  readonly body: object;
  words(answer: unknown): string;
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

const dialects: { readonly [Name in Client['speaks']]: Dialect } = {
  chat: {
    headers: bearer,
    body: { messages, max_tokens: outputTokens },
    words: (answer) => {
      const [choice] = objectsIn(fieldsOf(answer).choices);
      return textOf(fieldsOf(choice?.message).content);
    },
  },
  messages: {
    headers: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
    body: { messages, max_tokens: outputTokens },
    words: (answer) => textsIn(fieldsOf(answer).content),
  },
  responses: {
    headers: bearer,
    body: { input: question, max_output_tokens: outputTokens, store: false },
    words: (answer) =>
      objectsIn(fieldsOf(answer).output)
        .map((item) => textsIn(item.content))
        .join(''),
  },
};

function textsIn(parts: unknown): string {
  return objectsIn(parts)
    .map(({ text }) => textOf(text))
    .join('');
}

function firstWords(text: string): string {
  return text.length > shownMax ? `${text.slice(0, shownMax)}…` : text;
}

/** Throws an error with the message of the server that refused. */
export async function tryOut({ speaks, base, appends }: Client, gaps: Gaps): Promise<Trial> {
  const { headers, body, words } = dialects[speaks];
  const call = {
    method: 'POST',
    url: `${gaps.url}${base}${appends}`,
    headers: { ...headers(gaps.key), 'content-type': 'application/json' },
    body: JSON.stringify({ model: gaps.model, ...body }),
  } as const;
  const response = await askGateway(call, patienceMs);
  const text = await response.text();
  const answer = parseJson(text);
  if (response.status !== 200) {
    const { message } = fieldsOf(fieldsOf(answer).error);
    throw new Error(textOf(message) || `It answered with ${response.status} and no reason.`);
  }
  const requestId = response.headers.get('x-request-id');
  if (requestId === null) throw new Error(`What answers at ${gaps.url} is no Tollgate.`);
  return {
    request_id: requestId,
    answer: firstWords(words(answer)),
    cost: await costOf(requestId, gaps),
  };
}

async function costOf(requestId: string, { url, key }: Gaps): Promise<number | null> {
  const place = `${url}/v1/generation?id=${encodeURIComponent(requestId)}`;
  const call = { method: 'GET', url: place, headers: bearer(key) } as const;
  const response = await askGateway(call, patienceMs);
  const { total_cost: cost } = fieldsOf(fieldsOf(parseJson(await response.text())).data);
  return typeof cost === 'number' ? cost : null;
}

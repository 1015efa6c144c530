/** Routes of other APIs that are not served here, and what to call instead. */
import { isAnyPrefix } from './paths.ts';

const conversations =
  'No conversation is kept between requests; send it whole, to POST /v1/chat/completions or ' +
  'POST /v1/responses.';

/** For programs that were given a base URL where they want the whole address of an endpoint. */
const baseUrl =
  'This is a base URL, to which clients append the rest: POST /v1/chat/completions, ' +
  'POST /v1/messages and so on.';

/** The first pattern that fits a path, without its prefixes, decides which sentence is told. */
const sentences: readonly (readonly [RegExp, string])[] = [
  [
    /^\/responses\/(?:compact|input_tokens)$/,
    'Conversations are not compacted, and their tokens not counted, for clients of this API; ' +
      'POST /v1/responses answers them.',
  ],
  [
    /^\/responses\/./,
    'POST /v1/responses answers at once and keeps nothing, so there is no response to fetch, ' +
      'cancel or delete.',
  ],
  [
    /^\/(?:engines\/.+\/)?completions$/,
    'Text completions are not offered; send the prompt as a message to POST /v1/chat/completions.',
  ],
  [
    /^\/realtime(?:\/|$)/,
    'Live audio is not offered; POST /v1/audio/transcriptions, POST /v1/chat/completions and ' +
      'POST /v1/audio/speech do it one turn at a time.',
  ],
  [
    /^\/audio\/translations$/,
    'Translation of speech is not offered; POST /v1/audio/transcriptions writes it down, and ' +
      'POST /v1/chat/completions can translate the text.',
  ],
  [
    /^\/images\/variations$/,
    'Variations are not offered; POST /v1/images/edits makes one from an image and a prompt.',
  ],
  [/^\/videos?(?:\/|$)/, 'Videos are not offered; POST /v1/images/generations makes images.'],
  [
    /^\/moderations$/,
    'Moderation is not offered; POST /v1/chat/completions can ask a model to judge a text.',
  ],
  [/^\/rerank$/, 'Reranking is not offered; POST /v1/embeddings gives vectors to compare.'],
  [
    /^\/(?:files|uploads|vector_stores|containers)(?:\/|$)/,
    'No files are kept; send them inside the request, and long recordings to POST /v1/jobs.',
  ],
  [
    /^\/(?:messages\/)?batches(?:\/|$)/,
    'Batches are not offered; send each request by itself, several at the same time. Long audio ' +
      'has POST /v1/jobs.',
  ],
  [/^\/(?:assistants|threads|conversations)(?:\/|$)/, conversations],
  [
    /^\/(?:fine_tuning|fine-tunes|evals)(?:\/|$)/,
    'Models are called here, not trained or evaluated; do that at their provider.',
  ],
  [
    /:(?:stream)?generateContent$/i,
    'Gemini’s own format is not served; POST /v1/chat/completions calls its models.',
  ],
  [
    /^\/deployments\/./,
    'Azure’s own addresses are not served; set the client up for OpenAI itself, with a base URL ' +
      'that ends with /v1.',
  ],
  [
    /^\/(?:generate|tags|show|ps)$/,
    'Ollama’s own format is not served; set the client up for an OpenAI server, with a base URL ' +
      'that ends with /v1.',
  ],
  [
    /^\/(?:ai\/config|(?:ai\/)?[a-z]+-model)$/,
    'The AI SDK’s own gateway format is not served; use its provider @ai-sdk/openai-compatible, ' +
      'with a base URL that ends with /v1.',
  ],
  [
    /^\/(?:livez?|liveness|ping|status|heartbeat|health\/read\w+)$/,
    'GET /healthz tells whether the process is alive, GET /readyz whether it can take requests.',
  ],
  [/^\/(?:ui|admin|login)$/, 'The dashboard is at GET /dashboard.'],
  [
    /^\/key\/generate$/,
    'LiteLLM’s own routes for keys are not served; POST /api/v1/keys makes keys, with a ' +
      'management key.',
  ],
];

export function insteadOf(path: string): string | undefined {
  const segments = path.split('/').slice(1);
  const begin = segments.findIndex((segment) => !isAnyPrefix.test(segment));
  if (begin < 0) return baseUrl;
  const rest = `/${segments.slice(begin).join('/')}`;
  return sentences.find(([pattern]) => pattern.test(rest))?.[1];
}

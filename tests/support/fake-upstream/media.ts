/** Writes embeddings, speech, transcriptions, and images in OpenAI's formats. */

import type {
  EmbeddingsAnswer,
  ImagesAnswer,
  ReportedTokens,
  SpeechAnswer,
  TranscriptionAnswer,
} from './behavior.ts';
import { field, type ParsedRequest } from './parsed-request.ts';
import type { Part } from './sse.ts';

export interface Body {
  readonly contentType: string;
  readonly streamed: boolean;
  readonly parts: Iterable<Part>;
  readonly partDelayMs: number;
}

function fullBody(contentType: string, part: Omit<Part, 'bytes' | 'events'>, body: string): Body {
  const bytes = Buffer.from(body);
  return { contentType, streamed: false, parts: [{ bytes, events: 0, ...part }], partDelayMs: 0 };
}

/** Returns the inputs. A list of token IDs is one input, and a list of lists is several. */
function inputsOf(input: unknown): readonly unknown[] {
  const several = Array.isArray(input) && typeof input[0] !== 'number';
  return several ? input : [input];
}

/** Returns a vector that depends only on the input. */
function vectorOf(input: unknown, dimensions: number): Float32Array {
  const seed = Bun.hash.crc32(JSON.stringify(input ?? ''));
  const at = (_: unknown, index: number) => Math.fround(Math.sin(seed + index));
  return Float32Array.from({ length: dimensions }, at);
}

export function embeddingsBody(answer: EmbeddingsAnswer, request: ParsedRequest): Body {
  const requested = field(request.json, 'dimensions');
  const dimensions = typeof requested === 'number' ? requested : answer.dimensions;
  const packed = field(request.json, 'encoding_format') === 'base64';
  const data = inputsOf(field(request.json, 'input')).map((input, index) => {
    const vector = vectorOf(input, dimensions);
    const base64 = packed && Buffer.from(vector.buffer).toString('base64');
    return { object: 'embedding', index, embedding: packed ? base64 : [...vector] };
  });
  const tokens = answer.usage?.prompt ?? request.promptTokens;
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  const body = JSON.stringify({ object: 'list', data, model: request.model, usage });
  return fullBody('application/json', { usage }, body);
}

/** Returns plain audio, which has no usage, so the gateway must count the input. */
export function speechBody(answer: SpeechAnswer): Body {
  const parts: Part[] = [];
  for (let from = 0; from < answer.audioBytes; from += answer.pieceBytes) {
    const length = Math.min(answer.pieceBytes, answer.audioBytes - from);
    const bytes = Uint8Array.from({ length }, (_, index) => (from + index) % 251);
    parts.push({ bytes, events: 0 });
  }
  const { contentType, pieceDelayMs } = answer;
  return { contentType, streamed: true, parts, partDelayMs: pieceDelayMs };
}

export function transcriptionBody(answer: TranscriptionAnswer, request: ParsedRequest): Body {
  const { text, seconds } = answer;
  const format = request.form?.fields.response_format?.[0] ?? 'json';
  if (format === 'text') return fullBody('text/plain; charset=utf-8', { text }, `${text}\n`);
  const usage = { type: 'duration', seconds };
  const segments = [{ id: 0, seek: 0, start: 0, end: seconds, text }];
  const verbose = { task: 'transcribe', language: 'english', duration: seconds, segments };
  const body = { ...(format === 'verbose_json' && verbose), text, usage };
  return fullBody('application/json', { text, usage }, JSON.stringify(body));
}

/** OpenAI's token count for a small image at low quality. */
const tokensPerImage = 272;

export function imagesBody(answer: ImagesAnswer, request: ParsedRequest): Body {
  const count = Number(field(request.json, 'n') ?? request.form?.fields.n?.[0] ?? 1);
  const usage = imageUsage(answer.usage ?? {}, request.promptTokens, count);
  const data = Array.from({ length: count }, () => ({ b64_json: answer.base64 }));
  const look = { background: 'opaque', output_format: 'png', quality: 'low', size: '1024x1024' };
  const body = { created: 1_700_000_000, ...look, data, usage };
  return fullBody('application/json', { usage }, JSON.stringify(body));
}

function imageUsage(reported: ReportedTokens, promptTokens: number, count: number) {
  const input = reported.prompt ?? promptTokens;
  const output = reported.completion ?? tokensPerImage * count;
  return {
    input_tokens: input,
    input_tokens_details: { text_tokens: input, image_tokens: 0 },
    output_tokens: output,
    total_tokens: input + output,
  };
}

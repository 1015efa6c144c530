/** Turns a scripted answer and a request into the parts of a reply, without sockets or clocks. */

import { embeddings, images, speech, transcription } from './answers.ts';
import { anthropicError, anthropicEvents, anthropicReply } from './anthropic-chat.ts';
import { bedrockError, bedrockEvents, bedrockReply } from './bedrock-chat.ts';
import type { Answer, ChatAnswer, HugeLineAnswer, RawAnswer, StreamFault } from './behavior.ts';
import { eventFrame, exceptionFrame } from './frames.ts';
import { type Body, embeddingsBody, imagesBody, speechBody, transcriptionBody } from './media.ts';
import { openAiError, openAiEvents, openAiReply } from './openai-chat.ts';
import { messageTokens, type ParsedRequest } from './parsed-request.ts';
import { type Part, partOf, preamble, type SseEvent } from './sse.ts';

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Streamed replies are sent in chunks. Other replies have a Content-Length. */
  readonly streamed: boolean;
  readonly parts: Iterable<Part>;
  readonly partDelayMs: number;
}

export function replyTo(request: ParsedRequest, scripted: Answer, id: number): Reply {
  const answer = scripted.kind === 'chat' ? answerForEndpoint(scripted, request) : scripted;
  switch (answer.kind) {
    case 'chat':
      return ok(
        request.endpoint === 'anthropic-count'
          ? count(answer, request)
          : chatBody(answer, request, id),
      );
    case 'embeddings':
      return ok(embeddingsBody(answer, request));
    case 'speech':
      return ok(speechBody(answer));
    case 'transcription':
      return ok(transcriptionBody(answer, request));
    case 'images':
      return ok(imagesBody(answer, request));
    case 'raw':
      return rawReply(answer);
    case 'huge-line':
      return ok(eventStream(hugeLine(answer), 0));
    case 'error': {
      const body = errorJson(request, answer.status, answer.message);
      return { ...ok(jsonBody(body)), status: answer.status, headers: jsonHeaders(answer.headers) };
    }
  }
}

/** Turns a chat answer into a minimal success of the endpoint. */
function answerForEndpoint(answer: ChatAnswer, request: ParsedRequest): Answer {
  switch (request.endpoint) {
    case 'openai-chat':
    case 'anthropic-messages':
    case 'anthropic-count':
    case 'bedrock-converse':
      return answer;
    case 'embeddings':
      return embeddings(answer.usage === undefined ? {} : { usage: answer.usage }).answer;
    case 'speech':
      return speech().answer;
    case 'transcription':
      return transcription(answer.text).answer;
    case 'images':
      return images(answer.usage === undefined ? {} : { usage: answer.usage }).answer;
    case 'other':
      return {
        kind: 'error',
        status: 404,
        message: 'The fake upstream has no such path.',
        headers: {},
      };
  }
}

function ok(body: Body): Reply {
  const { contentType, streamed, parts, partDelayMs } = body;
  const headers = { 'content-type': contentType };
  return { status: 200, headers, streamed, parts, partDelayMs };
}

function jsonHeaders(headers: Readonly<Record<string, string>>) {
  return { 'content-type': 'application/json', ...headers };
}

function jsonBody(body: string | Uint8Array, event: Omit<Part, 'bytes' | 'events'> = {}): Body {
  const parts = [{ bytes: Buffer.from(body), events: 0, ...event }];
  return { contentType: 'application/json', streamed: false, parts, partDelayMs: 0 };
}

function eventStream(
  parts: Iterable<Part>,
  partDelayMs: number,
  contentType = 'text/event-stream; charset=utf-8',
): Body {
  return { contentType, streamed: true, parts, partDelayMs };
}

function errorJson(request: ParsedRequest, status: number, message: string): string {
  return JSON.stringify(writerFor(request).error(status, message));
}

/** Writes the answers of a chat endpoint. */
interface AnswerWriter {
  readonly reply: typeof openAiReply;
  readonly events: typeof openAiEvents;
  readonly error: typeof openAiError;
}

const openAiWriter: AnswerWriter = { reply: openAiReply, events: openAiEvents, error: openAiError };
const anthropicWriter: AnswerWriter = {
  reply: anthropicReply,
  events: anthropicEvents,
  error: anthropicError,
};
const bedrockWriter: AnswerWriter = {
  reply: bedrockReply,
  events: bedrockEvents,
  error: bedrockError,
};

function writerFor({ endpoint }: ParsedRequest): AnswerWriter {
  if (endpoint === 'bedrock-converse') return bedrockWriter;
  return endpoint.startsWith('anthropic-') ? anthropicWriter : openAiWriter;
}

/** Answers with a token count, which is logged as the text. */
function count(answer: ChatAnswer, request: ParsedRequest): Body {
  const tokens = answer.usage?.prompt ?? messageTokens(request.json);
  return jsonBody(JSON.stringify({ input_tokens: tokens }), { text: String(tokens) });
}

function chatBody(answer: ChatAnswer, request: ParsedRequest, id: number): Body {
  const streamed = answer.shape === undefined ? request.stream : answer.shape === 'always-sse';
  if (streamed) {
    const contentType = isFramed(request) ? 'application/vnd.amazon.eventstream' : undefined;
    return eventStream(chatParts(answer, request, id), answer.chunkDelayMs ?? 0, contentType);
  }
  const event = writerFor(request).reply(answer, request, id);
  if (answer.fault !== undefined) return jsonBody(faultyJson(answer.fault.with, event, request));
  const { data, ...booked } = event;
  return jsonBody(data, booked);
}

function isFramed({ endpoint }: ParsedRequest): boolean {
  return endpoint === 'bedrock-converse';
}

function* chatParts(answer: ChatAnswer, request: ParsedRequest, id: number): Generator<Part> {
  const events = writerFor(request).events(answer, request, id);
  const syntax = { ...answer.syntax, framed: isFramed(request) };
  const parts =
    answer.fault === undefined ? plain(events) : withFault(events, answer.fault, request);
  yield* answer.tinyEvents === undefined ? parts : batched(parts);

  function* plain(all: Iterable<SseEvent>): Generator<Part> {
    let before = preamble(syntax);
    for (const event of all) {
      const part = partOf(event, syntax);
      yield before.length === 0 ? part : { ...part, bytes: Buffer.concat([before, part.bytes]) };
      before = nothing;
    }
  }
}

const nothing = Buffer.alloc(0);

const errorMessage = 'The server is overloaded; the answer ends here';

/** The first half of an emoji. */
const unfinished = Buffer.from([0xf0, 0x9f]);

function* withFault(
  events: Iterable<SseEvent>,
  fault: NonNullable<ChatAnswer['fault']>,
  request: ParsedRequest,
): Generator<Part> {
  let count = 0;
  for (const event of events) {
    if (count === fault.afterEvents) {
      yield faultyEvent(fault.with, event, request);
      if (fault.with === 'error-data' || fault.with === 'error-event') return;
    }
    count += 1;
    yield partOf(event, { framed: isFramed(request) });
  }
}

function faultyEvent(kind: StreamFault, next: SseEvent, request: ParsedRequest) {
  if (isFramed(request)) return { bytes: faultyFrame(kind), events: 1 };
  const name = next.name === undefined ? '' : `event: ${next.name}\n`;
  switch (kind) {
    case 'error-data':
    case 'error-event': {
      const named = kind === 'error-event' || request.endpoint === 'anthropic-messages';
      const data = errorJson(request, 529, errorMessage);
      return partOf(named ? { name: 'error', data } : { data });
    }
    case 'malformed-json':
      return { bytes: Buffer.from(`${name}data: {"choices":[{"delta":\n\n`), events: 1 };
    case 'unfinished-character': {
      const before = Buffer.from(`${name}data: {"choices":[{"delta":{"content":"half `);
      return { bytes: Buffer.concat([before, unfinished, Buffer.from('"}}]}\n\n')]), events: 1 };
    }
  }
}

function faultyFrame(kind: StreamFault): Uint8Array {
  switch (kind) {
    case 'error-data':
    case 'error-event':
      return exceptionFrame('serviceUnavailableException', errorMessage);
    case 'malformed-json':
      return eventFrame('contentBlockDelta', '{"contentBlockIndex":0,"delta":');
    case 'unfinished-character': {
      // One byte of the payload is changed, so the checksum doesn't match.
      const frame = eventFrame('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'x' } });
      frame.writeUInt8(0xf0, frame.length - 5);
      return frame;
    }
  }
}

function faultyJson(
  kind: StreamFault,
  event: SseEvent,
  request: ParsedRequest,
): string | Uint8Array {
  switch (kind) {
    case 'error-data':
    case 'error-event':
      return errorJson(request, 529, errorMessage);
    case 'malformed-json':
      return `${event.data.slice(0, -1)},}`;
    case 'unfinished-character':
      return Buffer.concat([
        Buffer.from(`${event.data.slice(0, -1)},"half":"`),
        unfinished,
        Buffer.from('"}'),
      ]);
  }
}

/** Many events are sent per write. With a million writes, a test would measure the kernel. */
const eventsPerWrite = 256;

function* batched(parts: Iterable<Part>): Generator<Part> {
  let batch: Part[] = [];
  for (const part of parts) {
    batch.push(part);
    if (batch.length < eventsPerWrite) continue;
    yield joinParts(batch);
    batch = [];
  }
  yield joinParts(batch);
}

export function joinParts(parts: readonly Part[]): Part {
  const usage = parts.findLast((part) => part.usage !== undefined)?.usage;
  return {
    bytes: Buffer.concat(parts.map((part) => part.bytes)),
    events: parts.reduce((sum, part) => sum + part.events, 0),
    text: parts.map((part) => part.text ?? '').join(''),
    counted: parts.map((part) => part.counted ?? '').join(''),
    ...(usage !== undefined && { usage }),
  };
}

function* hugeLine(answer: HugeLineAnswer): Generator<Part> {
  yield { bytes: Buffer.from('data: {"choices":[{"delta":{"content":"'), events: 0 };
  const filler = Buffer.alloc(64 * 1024, 'x');
  for (let left = answer.bytes; left > 0; left -= filler.length) {
    yield { bytes: filler.subarray(0, Math.min(left, filler.length)), events: 0 };
  }
}

function rawReply(answer: RawAnswer): Reply {
  const body = Buffer.from(answer.bodyBase64, 'base64');
  const { status, headers, streamed, partDelayMs } = answer;
  const parts = answer.byEvent ? eventsOf(body) : [{ bytes: body, events: 0 }];
  return { status, headers, streamed, parts, partDelayMs };
}

function* eventsOf(body: Buffer): Generator<Part> {
  const text = body.toString('latin1');
  let from = 0;
  for (const { index, 0: blank } of text.matchAll(/\r\n\r\n|\n\n|\r\r/g)) {
    const to = index + blank.length;
    yield { bytes: body.subarray(from, to), events: 1 };
    from = to;
  }
  if (from < body.length) yield { bytes: body.subarray(from), events: 1 };
}

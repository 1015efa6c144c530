/**
 * The demo upstream: an HTTP server on the loopback address with OpenAI's API, but without a model.
 * Identical requests get identical responses.
 */
import { invalidRequest, notFound } from '../core/errors.ts';
import { answerChatCompletion } from './chat.ts';
import { answerEmbeddings } from './embeddings.ts';
import { errorReply, jsonReply, type Reply, type ReplyStream } from './http.ts';
import { answerImageEdit, answerImageGeneration } from './images.ts';
import { demoModels, demoProvider } from './models.ts';
import { answerSpeech } from './speech.ts';
import { excerpt } from './tokens.ts';
import { answerTranscription } from './transcription.ts';

export interface DemoUpstream {
  /** The base URL with its version: `http://127.0.0.1:PORT/v1`. */
  readonly url: string;
  /** Returns the number of streams being sent. Excludes those whose client has disconnected. */
  readonly openStreams: () => number;
  /** Stops listening and aborts answers that are being sent. */
  readonly stop: () => Promise<void>;
}

/** An image edit may have 100 MB of files, plus the form's overhead. */
const requestBytesMax = 110 * 1024 * 1024;

interface Route {
  readonly method: 'GET' | 'POST';
  readonly answer: (request: Request) => Reply | Promise<Reply>;
}

const routes: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['/v1/models', { method: 'GET', answer: listModels }],
  ['/v1/chat/completions', { method: 'POST', answer: answerChatCompletion }],
  ['/v1/embeddings', { method: 'POST', answer: answerEmbeddings }],
  ['/v1/audio/speech', { method: 'POST', answer: answerSpeech }],
  ['/v1/audio/transcriptions', { method: 'POST', answer: answerTranscription }],
  ['/v1/images/generations', { method: 'POST', answer: answerImageGeneration }],
  ['/v1/images/edits', { method: 'POST', answer: answerImageEdit }],
]);

export function startDemoUpstream(): DemoUpstream {
  let openStreams = 0;
  async function* tracked(stream: ReplyStream): ReplyStream {
    openStreams += 1;
    try {
      yield* stream;
    } finally {
      openStreams -= 1;
    }
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    // By default, Bun closes a stream after 10 s without data.
    idleTimeout: 0,
    maxRequestBodySize: requestBytesMax,
    async fetch(request) {
      const { status, headers, body } = await answer(request);
      return new Response(typeof body === 'string' ? body : tracked(body), { status, headers });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    openStreams: () => openStreams,
    stop: () => server.stop(true),
  };
}

/**
 * Starts the demo upstream when its URL is first needed, which may not be until a configuration
 * reload.
 */
export class LazyDemoUpstream {
  #upstream: DemoUpstream | undefined;

  url(): string {
    this.#upstream ??= startDemoUpstream();
    return this.#upstream.url;
  }

  async stop(): Promise<void> {
    await this.#upstream?.stop();
  }
}

async function answer(request: Request): Promise<Reply> {
  try {
    const { pathname } = new URL(request.url);
    const route = routes.get(pathname);
    if (route === undefined) throw notFound(`The demo has no ${excerpt(pathname)}.`);
    if (request.method === route.method) return await route.answer(request);
    const reply = errorReply(
      invalidRequest(`${pathname} accepts only ${route.method}.`, undefined, 405),
    );
    return { ...reply, headers: { ...reply.headers, allow: route.method } };
  } catch (error) {
    return errorReply(error);
  }
}

function listModels(): Reply {
  const data = demoModels.flatMap(({ name, description, endpoints }) =>
    endpoints.map(({ model }) => ({
      id: model,
      object: 'model',
      created: 0,
      owned_by: demoProvider,
      name,
      description,
    })),
  );
  return jsonReply({ object: 'list', data });
}

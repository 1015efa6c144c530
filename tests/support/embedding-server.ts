// Fakes the embedding endpoints of Cohere and Gemini. A vector has two components: the number at
// the end of the text (or -1) and the text's length. Tests use them to match vectors with texts.

interface EmbeddingCall {
  readonly path: string;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
  readonly texts: readonly string[];
}

export class EmbeddingServer {
  readonly calls: EmbeddingCall[] = [];
  /** The tokens of each text in Cohere's `meta.billed_units.input_tokens`. Null omits `meta`. */
  tokensPerText: number | null = null;
  /** A call with more texts gets a 413, like the one of TEI. */
  textsMax = Number.POSITIVE_INFINITY;
  /** The response to the next call, if set. */
  nextResponse: Response | null = null;
  /** Calls wait for an answer until this many have been open at the same time. */
  minConcurrentCalls = 1;
  maxConcurrentCalls = 0;
  #concurrentCalls = 0;
  #reachedMinimum = Promise.withResolvers<void>();
  readonly #server = Bun.serve({ port: 0, fetch: (request) => this.#answer(request) });

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  async stop(): Promise<void> {
    await this.#server.stop(true);
  }

  reset(): void {
    this.calls.length = 0;
    this.tokensPerText = null;
    this.textsMax = Number.POSITIVE_INFINITY;
    this.nextResponse = null;
    this.minConcurrentCalls = 1;
    this.maxConcurrentCalls = 0;
    this.#reachedMinimum = Promise.withResolvers();
  }

  async #answer(request: Request): Promise<Response> {
    this.#concurrentCalls += 1;
    this.maxConcurrentCalls = Math.max(this.maxConcurrentCalls, this.#concurrentCalls);
    try {
      const { pathname: path } = new URL(request.url);
      const body = (await request.json()) as Record<string, unknown>;
      const isCohere = path.endsWith('/embed');
      const texts = isCohere ? (body.texts as string[]) : geminiTexts(body);
      this.calls.push({ path, headers: request.headers, body, texts });
      if (this.maxConcurrentCalls >= this.minConcurrentCalls) this.#reachedMinimum.resolve();
      await this.#reachedMinimum.promise;
      // Leaves time for another call to arrive, in case the gateway makes too many.
      await Bun.sleep(20);
      const { nextResponse } = this;
      this.nextResponse = null;
      if (nextResponse) return nextResponse;
      if (texts.length > this.textsMax) return tooMany(texts.length, this.textsMax);
      const vectors = texts.map((text) => [Number(/\d+$/.exec(text)?.[0] ?? -1), text.length]);
      if (!isCohere) return Response.json({ embeddings: vectors.map((values) => ({ values })) });
      const meta = { billed_units: { input_tokens: texts.length * (this.tokensPerText ?? 0) } };
      return Response.json({
        id: 'e1',
        embeddings: { float: vectors },
        response_type: 'embeddings_by_type',
        ...(this.tokensPerText === null ? {} : { meta }),
      });
    } finally {
      this.#concurrentCalls -= 1;
    }
  }
}

function geminiTexts({ requests }: Record<string, unknown>): string[] {
  const entries = requests as { content: { parts: { text: string }[] } }[];
  return entries.map(({ content }) => content.parts.map(({ text }) => text).join(''));
}

function tooMany(count: number, max: number): Response {
  const message = `batch size ${count} > maximum allowed batch size ${max}`;
  return Response.json({ message, code: 413, type: 'Validation' }, { status: 413 });
}
